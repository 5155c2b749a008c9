package io.vstream.flink.handover;

import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;

/**
 * What an operator knows of templates, in a checkpoint: the same in all of its subtasks, so the
 * first one writes it and all of them read it.
 *
 * <p>Commands come from one control task and go to every subtask, and checkpoints are aligned, so
 * at a barrier all subtasks have carried out the same commands. Broadcast state would write a copy
 * per subtask into every checkpoint; a template has a megabyte.
 */
public final class TemplateState {

    /** Of the template in use. */
    public static final int TEMPLATE = 0;

    /** Of the announced template. */
    public static final int NEXT = 1;

    /** Of the ranges with two owners. */
    public static final int MOVES = 2;

    private final ListState<byte[]> state;
    private final Map<Integer, byte[]> restored = new HashMap<>();

    /** Registers the state and reads what a checkpoint holds, one of an older version too. */
    public TemplateState(OperatorStateStore store) throws Exception {
        state =
                store.getUnionListState(
                        new ListStateDescriptor<>(
                                "templates", BytePrimitiveArraySerializer.INSTANCE));
        for (byte[] entry : state.get()) {
            ByteBuffer read = ByteBuffer.wrap(entry);
            byte[] value = new byte[entry.length - Integer.BYTES];
            restored.put(read.getInt(), value);
            read.get(value);
        }
        state.clear();
        BroadcastState<Integer, byte[]> copies =
                store.getBroadcastState(
                        new MapStateDescriptor<>(
                                "template",
                                IntSerializer.INSTANCE,
                                BytePrimitiveArraySerializer.INSTANCE));
        copies.immutableEntries()
                .forEach(entry -> restored.putIfAbsent(entry.getKey(), entry.getValue()));
        copies.clear();
    }

    /** What was restored under a key, once; null for nothing. */
    public byte[] take(int key) {
        return restored.remove(key);
    }

    /**
     * Writes what an operator knows into the checkpoint, if this is the first subtask; null for
     * what it does not know.
     *
     * @param subtask index of the subtask
     */
    public void snapshot(int subtask, NativeRouter template, NativeRouter next, MovedRanges moves)
            throws Exception {
        List<byte[]> written = new ArrayList<>();
        if (subtask == 0) {
            add(TEMPLATE, template == null ? null : template.toBytes(), written);
            add(NEXT, next == null ? null : next.toBytes(), written);
            add(MOVES, moves == null ? null : moves.bytes(), written);
        }
        state.update(written);
    }

    private static void add(int key, byte[] value, List<byte[]> written) {
        if (value != null) {
            ByteBuffer entry = ByteBuffer.allocate(Integer.BYTES + value.length);
            written.add(entry.putInt(key).put(value).array());
        }
    }
}
