package io.vstream.flink.place;

import io.vstream.flink.control.LargeGroups;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.route.SpreadGroup;
import io.vstream.flink.state.Totals;
import java.io.IOException;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.OutputTag;

/**
 * Gives every record of a collection of isolated groups its version and sends it to the partition
 * of its group. Keyed by shard.
 *
 * <ul>
 *   <li><b>Nothing is kept of a row</b>, but the largest number of those that come with one ({@link
 *       VectorRecord#newer}). A group never changes its shard, and the partition knows which rows
 *       there are.
 *   <li><b>Order per group.</b> All records of a group pass one subtask, and each (place, search)
 *       pair of subtasks is one channel in order. So a partition sees the writes of a group in the
 *       order of their versions, and a drop of the group between them at its place.
 *   <li><b>A group that is too large</b> for one partition is spread over slices, see {@link
 *       GroupSpreading}. From then on a write of an id goes to its slice and then, as a delete or
 *       an update, to the place where the row was if it is older.
 *   <li><b>Versions never restart</b>: the clock is union state, and a restored subtask starts from
 *       the largest of all. Versions given after a checkpoint are given again after a restore from
 *       it, to the same state of the partition.
 *   <li><b>Source offsets follow the writes that they cover</b>, as in {@link PlaceOperator}.
 * </ul>
 */
public final class GroupPlaceOperator extends AbstractStreamOperator<Write>
        implements OneInputStreamOperator<VectorRecord, Write> {

    private static final long serialVersionUID = 1L;

    private static final int UPSERTS = 0;
    private static final int DELETES = 1;
    private static final int UPDATES = 2;
    private static final int STALE = 3;
    private static final int COPIES = 4;

    /** How often a task asks which groups are large. */
    private static final long ASK_MILLIS = 1_000;

    /** Groups that are spread from the next checkpoint on, for every router. */
    public static final OutputTag<SpreadGroup> SPREAD =
            new OutputTag<>("spread-groups", SpreadGroup.TYPE);

    private final ShardKeys keys;
    private final PartitionCount partitionCount;
    private final long seed;
    private final String searchUid;

    private transient ListState<Long> clockState;
    private transient MapState<String, Long> order;
    private transient long clock;
    private transient Totals totals;
    private transient Count placed;
    private transient Count sent;
    private transient Write write;
    private transient StreamRecord<Write> record;
    private transient OffsetsForwarder offsets;
    private transient int partitions;
    private transient ListState<SpreadGroup> spreadState;
    private transient GroupSpreading spreading;
    private transient LargeGroups.Listener largeGroups;

    /**
     * @param keys of the collection
     * @param partitionCount tells the parallelism of search in this attempt
     * @param seed of the collection
     * @param searchUid uid of the partitions, which say which groups are large
     */
    public GroupPlaceOperator(
            ShardKeys keys, PartitionCount partitionCount, long seed, String searchUid) {
        this.keys = keys;
        this.partitionCount = partitionCount;
        this.seed = seed;
        this.searchUid = searchUid;
    }

    /** The key of a record: one of its shard; of offsets one that leads to their subtask. */
    public static KeySelector<VectorRecord, Long> key(ShardKeys keys) {
        return record -> record.offsets != null ? record.id : Long.valueOf(keys.key(record.shard));
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        clockState =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>("clock", LongSerializer.INSTANCE));
        for (long old : clockState.get()) {
            clock = Math.max(clock, old);
        }
        MapStateDescriptor<String, Long> descriptor =
                new MapStateDescriptor<>(
                        "order", StringSerializer.INSTANCE, LongSerializer.INSTANCE);
        descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Carried.ORDER_KEPT).build());
        order = context.getKeyedStateStore().getMapState(descriptor);
        spreadState =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>(
                                        "spread", new SpreadGroup.SpreadGroupSerializer()));
        Meters meters = new Meters(getMetricGroup());
        totals =
                new Totals(
                        meters,
                        Names.UPSERTS,
                        Names.DELETES,
                        Names.UPDATES,
                        Names.STALE,
                        Names.COPIES);
        totals.restore(context.getOperatorStateStore());
        placed = meters.count(Names.PLACED);
        sent = meters.count(Names.SENT);
        // There are no templates; see the quiet check.
        meters.level(Names.EPOCH);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        totals.snapshot();
        clockState.clear();
        clockState.add(clock);
        spreadState.clear();
        spreadState.addAll(spreading.snapshot(context.getCheckpointId()));
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws Exception {
        super.notifyCheckpointComplete(checkpoint);
        spreading.completed(checkpoint);
    }

    @Override
    public void open() throws Exception {
        super.open();
        partitions = partitionCount.count(getContainingTask());
        TaskInfo task = getRuntimeContext().getTaskInfo();
        KeyGroupRange shards =
                keys.shardsOf(task.getIndexOfThisSubtask(), task.getNumberOfParallelSubtasks());
        spreading =
                new GroupSpreading(
                        seed,
                        keys,
                        shards,
                        partitions,
                        group -> output.collect(SPREAD, new StreamRecord<>(group)));
        spreading.restore(spreadState.get());
        largeGroups =
                new LargeGroups.Listener(
                        getContainingTask().getEnvironment().getOperatorCoordinatorEventGateway(),
                        searchUid,
                        getContainingTask()
                                .getMailboxExecutorFactory()
                                .createExecutor(getOperatorConfig().getChainIndex()),
                        spreading::tooLarge);
        askLater();
        write = new Write();
        record = new StreamRecord<>(write);
        offsets = new OffsetsForwarder(getProcessingTimeService(), this::sendOffsets);
    }

    @Override
    public void processElement(StreamRecord<VectorRecord> element) throws Exception {
        VectorRecord in = element.getValue();
        if (in.offsets != null) {
            offsets.add(in.offsets);
            return;
        }
        if (isStale(in)) {
            totals.get(STALE).inc();
        } else {
            place(in, ++clock);
            count(in);
        }
        // After everything was sent: the quiet check reads these counts in this order.
        placed.inc();
    }

    private void place(VectorRecord in, long version) {
        SpreadGroup group = spreading.of(in.fields.group());
        if (group == null) {
            write.grouped(in, version);
            send();
        } else if (in.drop) {
            for (int slice = 0; slice < group.slices(); slice++) {
                write.inSlice(in, version, group.name(slice), group.shard(slice));
                send();
            }
            write.grouped(in, version);
            send();
        } else {
            int slice = group.sliceOf(in.id);
            write.inSlice(in, version, group.name(slice), group.shard(slice));
            send();
            write.followsTo(in, version);
            send();
        }
    }

    private void send() {
        output.collect(record);
        sent.inc();
    }

    private void askLater() {
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now + ASK_MILLIS, time -> ask());
    }

    private void ask() throws IOException {
        largeGroups.ask();
        askLater();
    }

    @Override
    public void close() throws Exception {
        if (largeGroups != null) {
            largeGroups.close();
        }
        super.close();
    }

    private void count(VectorRecord in) {
        if (in.delete) {
            totals.get(DELETES).inc();
        } else if (in.update) {
            totals.get(UPDATES).inc();
        } else {
            totals.get(UPSERTS).inc();
            totals.get(COPIES).inc();
        }
    }

    /**
     * True if a record of the id with this number or a larger one was here, or a drop of its group.
     * A number in front of the group tells all ids apart, and nothing in front its drops.
     */
    private boolean isStale(VectorRecord in) throws Exception {
        if (in.newer == Incoming.ANY_ORDER) {
            return false;
        }
        String drops = "/" + in.fields.group();
        String row = in.drop ? drops : in.id + drops;
        if (reached(row, in.newer) || reached(drops, in.newer)) {
            return true;
        }
        order.put(row, in.newer);
        return false;
    }

    private boolean reached(String key, long number) throws Exception {
        Long last = order.get(key);
        return last != null && number <= last;
    }

    private void sendOffsets(long[] known) {
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        for (int partition = 0; partition < partitions; partition++) {
            write.offsets(subtask, known, keys.shardIn(partition, partitions));
            output.collect(record);
        }
    }
}
