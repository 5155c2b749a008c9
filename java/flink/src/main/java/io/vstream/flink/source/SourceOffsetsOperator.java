package io.vstream.flink.source;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.EpochClock;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.ShardKeys;
import java.util.Arrays;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.LongPrimitiveArraySerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Tells the steps behind it how far the source was read, in the source's own task.
 *
 * <ol>
 *   <li>Records pass; the next offset of each partition is remembered.
 *   <li>At most every {@link Frontier#OFFSETS_EVERY_MILLIS} it sends the offsets to each place
 *       subtask, behind the records that they cover. So place has all of these by then.
 *   <li>Place sends the offsets on to every search subtask behind the writes that came of these
 *       records, and what search has heard from all place subtasks is the frontier of its answers.
 * </ol>
 *
 * <p>Offsets are union state: after a restore every subtask speaks for all partitions of the
 * checkpoint, which is true whoever reads them now, and the larger of two offsets counts.
 */
public final class SourceOffsetsOperator extends AbstractStreamOperator<Incoming>
        implements OneInputStreamOperator<Incoming, Incoming> {

    private static final long serialVersionUID = 1L;

    private final ShardKeys keys;
    private final PartitionCount placeCount;

    private transient int places;
    private transient long[] offsets;
    private transient boolean scheduled;
    private transient ListState<long[]> state;
    private transient StreamRecord<Incoming> record;

    /**
     * @param placeCount tells the parallelism of place in this attempt
     */
    public SourceOffsetsOperator(ShardKeys keys, PartitionCount placeCount) {
        this.keys = keys;
        this.placeCount = placeCount;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        offsets = new long[0];
        state =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>(
                                        "offsets", LongPrimitiveArraySerializer.INSTANCE));
        for (long[] old : state.get()) {
            offsets = Frontier.max(offsets, old);
        }
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        state.clear();
        state.add(offsets);
    }

    @Override
    public void open() throws Exception {
        super.open();
        places = placeCount.count(getContainingTask());
        record = new StreamRecord<>(null);
        Meters meters = new Meters(getMetricGroup());
        Level since = meters.level(Names.MEASURED_SINCE);
        since.set(EpochClock.nanos());
        meters.level(Names.PHASE).set(Names.PHASE_STREAM);
        if (offsets.length > 0) {
            scheduleOffsets();
        }
    }

    @Override
    public void processElement(StreamRecord<Incoming> element) {
        Incoming in = element.getValue();
        int partition = in.partition;
        long next = in.offset + 1;
        output.collect(element);
        if (partition >= offsets.length) {
            int known = offsets.length;
            offsets = Arrays.copyOf(offsets, partition + 1);
            Arrays.fill(offsets, known, offsets.length, Frontier.NO_OFFSET);
        }
        offsets[partition] = Math.max(offsets[partition], next);
        scheduleOffsets();
    }

    private void scheduleOffsets() {
        if (!scheduled) {
            scheduled = true;
            getProcessingTimeService()
                    .registerTimer(
                            getProcessingTimeService().getCurrentProcessingTime()
                                    + Frontier.OFFSETS_EVERY_MILLIS,
                            now -> sendOffsets());
        }
    }

    private void sendOffsets() {
        scheduled = false;
        long[] known = offsets.clone();
        for (int place = 0; place < places; place++) {
            Incoming message = new Incoming();
            message.kind = Incoming.Kind.OFFSETS;
            message.id = keys.idIn(place, places);
            message.offsets = known;
            output.collect(record.replace(message));
        }
    }
}
