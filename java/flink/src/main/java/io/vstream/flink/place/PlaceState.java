package io.vstream.flink.place;

import io.vstream.flink.handover.TemplateState;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.state.VectorSerializer;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.KeyedStateFunction;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;

/**
 * The state of one place subtask in Flink: that of the current row, the template, the clock of
 * versions and the watermark. Savepoints hold the names and the layouts.
 */
final class PlaceState {

    private final ValueStateDescriptor<float[]> heldDescriptor =
            new ValueStateDescriptor<>("held", new VectorSerializer());
    private final ValueStateDescriptor<Location> leavingDescriptor =
            new ValueStateDescriptor<>("leaving", new Location.LocationSerializer());
    private final ValueStateDescriptor<Long> endDescriptor =
            new ValueStateDescriptor<>("end", LongSerializer.INSTANCE);

    private final ValueState<Location> location;
    private final ValueState<float[]> held;
    private final ValueState<Location> leaving;
    private final ValueState<Long> end;
    private final TemplateState templates;
    private final ListState<Long> clockState;
    private final ListState<Long> watermarkState;
    private final long watermark;
    private long clock;

    /** Registers all of it and restores what belongs to the subtask and not to a row. */
    PlaceState(StateInitializationContext context) throws Exception {
        KeyedStateStore keyed = context.getKeyedStateStore();
        location =
                keyed.getState(
                        new ValueStateDescriptor<>("location", new Location.LocationSerializer()));
        held = keyed.getState(heldDescriptor);
        leaving = keyed.getState(leavingDescriptor);
        end = keyed.getState(endDescriptor);
        OperatorStateStore operator = context.getOperatorStateStore();
        templates = new TemplateState(operator);
        clockState =
                operator.getUnionListState(
                        new ListStateDescriptor<>("clock", LongSerializer.INSTANCE));
        for (long old : clockState.get()) {
            clock = Math.max(clock, old);
        }
        watermarkState =
                operator.getUnionListState(
                        new ListStateDescriptor<>("watermark", LongSerializer.INSTANCE));
        watermark = least(watermarkState.get());
    }

    private static long least(Iterable<Long> watermarks) {
        long least = Long.MAX_VALUE;
        for (long one : watermarks) {
            least = Math.min(least, one);
        }
        return watermarks.iterator().hasNext() ? least : Frontier.NO_TIME;
    }

    /**
     * Writes the clock and the watermark; Flink writes the rest.
     *
     * @param reached watermark of the subtask, or {@link Frontier#NO_TIME}
     */
    void snapshot(long reached) throws Exception {
        clockState.clear();
        clockState.add(clock);
        watermarkState.clear();
        watermarkState.add(reached);
    }

    /** Where the copies of the current row are; null for none. */
    ValueState<Location> location() {
        return location;
    }

    /** Vector of the current row while rows are not placed. */
    ValueState<float[]> held() {
        return held;
    }

    /** Where the current row was before it was placed, until the old copies are deleted. */
    ValueState<Location> leaving() {
        return leaving;
    }

    /** When the life of the current row ends, with a time to live. */
    ValueState<Long> end() {
        return end;
    }

    /** Templates and moved ranges: see {@link TemplateSwitch}. */
    TemplateState templates() {
        return templates;
    }

    /** The watermark that all subtasks of the checkpoint had reached. */
    long watermark() {
        return watermark;
    }

    /** A version above the last one of the row ({@code old}, null for none) and of the subtask. */
    long nextVersion(Location old) {
        clock = Math.max(clock, old == null ? 0 : old.version()) + 1;
        return clock;
    }

    /** Visits all rows with a held vector, each as the current row. */
    void forEachHeld(
            KeyedStateBackend<Long> rows, KeyedStateFunction<Long, ValueState<float[]>> visit)
            throws Exception {
        rows.applyToAllKeys(
                VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, heldDescriptor, visit);
    }

    /** Visits all rows with old copies, each as the current row. */
    void forEachLeaving(
            KeyedStateBackend<Long> rows, KeyedStateFunction<Long, ValueState<Location>> visit)
            throws Exception {
        rows.applyToAllKeys(
                VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, leavingDescriptor, visit);
    }

    /** Visits all rows whose life ends, each as the current row. */
    void forEachEnd(KeyedStateBackend<Long> rows, KeyedStateFunction<Long, ValueState<Long>> visit)
            throws Exception {
        rows.applyToAllKeys(
                VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, endDescriptor, visit);
    }
}
