package io.vstream.flink.state;

import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeutils.base.array.LongPrimitiveArraySerializer;

/**
 * Counts that belong to the job's life and not to an attempt: they are part of operator state, so a
 * restart counts nothing twice and a rescale keeps every sum.
 */
public final class Totals {

    private final Count[] counts;
    private ListState<long[]> state;

    /**
     * @param names of the counts; only ever append to them, since state holds them by position
     */
    public Totals(Meters meters, String... names) {
        counts = new Count[names.length];
        for (int i = 0; i < names.length; i++) {
            counts[i] = meters.count(names[i]);
        }
    }

    /** The count of the name at {@code position}. */
    public Count get(int position) {
        return counts[position];
    }

    /** Adds what the checkpoint holds. Each subtask gets some of the old subtasks' shares. */
    public void restore(OperatorStateStore store) throws Exception {
        state =
                store.getListState(
                        new ListStateDescriptor<>("totals", LongPrimitiveArraySerializer.INSTANCE));
        for (long[] share : state.get()) {
            for (int i = 0; i < Math.min(share.length, counts.length); i++) {
                counts[i].inc(share[i]);
            }
        }
    }

    /** Writes this subtask's share. */
    public void snapshot() throws Exception {
        long[] share = new long[counts.length];
        for (int i = 0; i < share.length; i++) {
            share[i] = counts[i].getCount();
        }
        state.clear();
        state.add(share);
    }
}
