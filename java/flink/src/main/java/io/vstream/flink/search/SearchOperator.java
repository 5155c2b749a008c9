package io.vstream.flink.search;

import io.vstream.flink.control.LargeGroups;
import io.vstream.flink.control.PartitionReporter;
import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.EpochClock;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.Channels;
import io.vstream.flink.route.QueryCopy;
import io.vstream.flink.route.ShardKeys;
import io.vstream.nativecore.VectorBatch;
import io.vstream.nativecore.Written;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.LongPrimitiveArraySerializer;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * One partition: applies writes in order and answers queries, on one native engine.
 *
 * <p>Both inputs are sent by shard, and shard s is key group s (see {@link
 * io.vstream.flink.route.ShardKeys}), so Flink's ranges of key groups are the partitions. The
 * operator has no key of its own: Flink would open a state backend for it, where its engine is.
 *
 * <ul>
 *   <li><b>A query sees every write that came before it.</b> Writes are gathered in a batch, since
 *       a call across the border and a publication cost the same for one as for many; whatever
 *       looks at the engine applies the batch first: a query, a checkpoint, the end, the tick.
 *   <li><b>A query is answered beside the task</b>, on the rows of the moment when it came, so that
 *       a slow read delays neither the stream nor other queries: see {@link SearchExecutor}. More
 *       queries than can be answered are shed, so that they do not hold up writes.
 *   <li><b>What the engine refuses is a bad record</b>, by reason and with its id: see {@link
 *       RefusedWrites}.
 *   <li><b>A checkpoint holds exactly the writes before its barrier.</b> The engine's files are
 *       pinned at the barrier; new ones are uploaded while the task goes on, and those of earlier
 *       checkpoints are named: see {@link IncrementalStore}.
 * </ul>
 */
public final class SearchOperator extends AbstractStreamOperator<PartialAnswer>
        implements TwoInputStreamOperator<Write, QueryCopy, PartialAnswer> {

    private static final long serialVersionUID = 1L;

    /** Writes per batch: 32 of them cost well under a millisecond, which a query may wait. */
    private static final int BATCH = 32;

    private static final long TICK_MILLIS = 100;

    /** Reading the stats reads every row, so it may take at most this share of the time. */
    private static final long STATS_SHARE = 100;

    private static final long STATS_NANOS_MIN = 1_000_000_000L;

    private static final ObjectMapper JSON = new ObjectMapper();

    private final PartitionSettings settings;

    private final transient PartitionReporter control;
    private final transient MailboxExecutor mailbox;
    private transient PartitionState state;
    private transient VectorBatch writes;
    private transient SearchAdmission queries;
    private transient StreamRecord<PartialAnswer> record;
    private transient FrontierTracker frontier;
    private transient ListState<long[]> frontierState;
    private transient int partition;
    private transient long statsDueNanos;
    private transient Count applied;
    private transient Count withoutRow;
    private transient RefusedWrites refused;
    private transient Level lastApplied;
    private transient PartitionGauges gauges;
    private transient Count searches;
    private transient Count shed;
    private transient Count incomplete;
    private transient Count searchNanos;
    private transient Count queueNanos;
    private transient Level inFlight;
    private transient Count writeNanos;
    private transient Count leaves;
    private transient HandoverExecutor handoverExecutor;
    private transient HandoverParticipant handover;
    private transient LoadReporter loadReporter;
    private transient RecallSteeringClient steering;
    private transient LargeGroups.Reporter largeGroups;
    private transient ReadEndpoint reads;

    /**
     * @param settings of the partition
     * @param control hears reports
     */
    SearchOperator(
            StreamOperatorParameters<PartialAnswer> parameters,
            PartitionSettings settings,
            PartitionReporter control) {
        super(parameters);
        this.settings = settings;
        this.control = control;
        this.mailbox = parameters.getMailboxExecutor();
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        int partitions = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        frontierState =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>(
                                        "frontier", LongPrimitiveArraySerializer.INSTANCE));
        frontier = new FrontierTracker(Channels.into(getContainingTask(), 1), restoredFrontier());
        refused =
                new RefusedWrites(
                        new Meters(getMetricGroup()),
                        bad -> output.collect(BadRecord.TAG, new StreamRecord<>(bad)));
        refused.restore(context.getOperatorStateStore());
        partition = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        KeyGroupRange shards =
                ShardKeys.ofCollection(settings.collection()).shardsOf(partition, partitions);
        state = new PartitionState(settings, shards, partition, parentFolder());
        state.restore(
                getContainingTask()
                        .getEnvironment()
                        .getTaskStateManager()
                        .prioritizedOperatorState(getOperatorID())
                        .getJobManagerManagedKeyedState());
    }

    @Override
    public void open() throws Exception {
        super.open();
        writes = new VectorBatch(settings.dimension(), BATCH);
        SearchTask.Partition searched =
                new SearchTask.Partition(
                        state.engine(),
                        new BufferPool(settings.dimension()),
                        partition,
                        settings.spreadRows());
        queries =
                new SearchAdmission(
                        searched,
                        settings.search(),
                        getContainingTask()
                                .getMailboxExecutorFactory()
                                .createExecutor(getOperatorConfig().getChainIndex()),
                        "vstream-search-" + partition,
                        new SearchAdmission.Writes(this::apply, () -> frontier.current()),
                        this::answer);
        record = new StreamRecord<>(null);
        Meters meters = new Meters(getMetricGroup());
        applied = meters.count(Names.APPLIED);
        withoutRow = meters.count(Names.WRITES_WITHOUT_ROW);
        lastApplied = meters.level(Names.LAST_APPLIED);
        gauges = new PartitionGauges(meters);
        searches = meters.count(Names.SEARCHES);
        shed = meters.count(Names.SHED);
        incomplete = meters.count(Names.INCOMPLETE);
        searchNanos = meters.count(Names.SEARCH_NANOS);
        queueNanos = meters.count(Names.QUEUE_NANOS);
        inFlight = meters.level(Names.IN_FLIGHT);
        writeNanos = meters.count(Names.WRITE_NANOS);
        leaves = meters.count(Names.LEAVES);
        steering = openSteering(meters);
        largeGroups =
                new LargeGroups.Reporter(
                        getContainingTask().getEnvironment().getOperatorCoordinatorEventGateway(),
                        getOperatorID());
        readStats();
        tickLater();
        openHandover(List.of(meters.count(Names.ADOPTED), meters.count(Names.RELEASED)));
        openReads(searched);
    }

    private void openReads(SearchTask.Partition searched) throws IOException {
        if (settings.reads() == null) {
            return;
        }
        reads =
                new ReadEndpoint(
                        settings.reads(),
                        searched,
                        settings.dimension(),
                        settings.search().threads());
        reads.applied(frontier.current());
        handover.listen(reads::reached);
        String machine =
                getContainingTask()
                        .getEnvironment()
                        .getTaskManagerInfo()
                        .getTaskManagerExternalAddress();
        control.setReadPoint(
                partition,
                getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks(),
                reads.address(machine));
        control.tellReadPoint();
    }

    private RecallSteeringClient openSteering(Meters meters) {
        return new RecallSteeringClient(
                RecallSteeringClient.RequestSender.of(
                        getContainingTask().getEnvironment().getOperatorCoordinatorEventGateway(),
                        getOperatorID()),
                mailbox,
                state.engine()::aim,
                partition,
                getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks(),
                meters.ratio(Names.RECALL_AIM));
    }

    private void openHandover(List<Count> moved) {
        handoverExecutor =
                new HandoverExecutor(
                        "vstream-hand-over-" + partition,
                        state.engine(),
                        this::apply,
                        mailbox,
                        getProcessingTimeService());
        String shared =
                settings.sharedFolder() == null
                        ? null
                        : HandoverFolder.of(settings.sharedFolder(), getRuntimeContext());
        TaskInfo task = getRuntimeContext().getTaskInfo();
        handover =
                new HandoverParticipant(
                        handoverExecutor,
                        control::send,
                        settings,
                        new HandoverParticipant.Part(
                                partition,
                                task.getNumberOfParallelSubtasks(),
                                task.getAttemptNumber(),
                                Channels.into(getContainingTask(), 1),
                                Channels.into(getContainingTask(), 2)),
                        state.folder(),
                        shared == null ? null : new HandoverFolder(shared),
                        moved);
        loadReporter =
                new LoadReporter(
                        handoverExecutor,
                        handover,
                        control::send,
                        settings,
                        task.getNumberOfParallelSubtasks());
        loadReporter.begin(applied, writeNanos);
    }

    @Override
    public void processElement1(StreamRecord<Write> element) throws Exception {
        Write write = element.getValue();
        if (write.ack != null) {
            handover.acknowledge(true, write.ack);
            return;
        }
        if (write.offsets != null) {
            // Its writes may wait in the batch, which every query applies first.
            frontier.offsets((int) write.id, write.offsets);
            return;
        }
        gather(write);
        if (writes.count() >= BATCH) {
            apply();
            // A task goes on with one input as long as it has records and there is no mail: after a
            // stall every write that waits would come before the next query.
            mailbox.execute(() -> {}, "turn of the queries");
        }
    }

    private void gather(Write write) {
        boolean carries = write.update || !write.fields.isNone();
        if (carries ? !writes.hasRoom(write.fields) : !writes.hasRoom()) {
            apply();
            // Now the batch is empty and makes room.
            if (carries) {
                writes.hasRoom(write.fields);
            }
        }
        long id = write.id;
        if (write.drop) {
            writes.drop(write.version, write.shard, write.fields);
        } else if (write.delete) {
            writes.delete(id, write.version, write.code, write.shard, write.fields);
        } else if (write.update) {
            writes.update(id, write.version, write.code, write.shard, write.fields);
        } else {
            writes.upsert(id, write.version, write.code, write.shard, write.vector, write.fields);
        }
    }

    @Override
    public void processWatermark1(Watermark mark) throws Exception {
        frontier.watermark(mark.getTimestamp());
        super.processWatermark1(mark);
    }

    @Override
    public void processElement2(StreamRecord<QueryCopy> element) throws Exception {
        QueryCopy copy = element.getValue();
        if (copy.ack() != null) {
            handover.acknowledge(false, copy.ack());
            return;
        }
        queries.ask(copy);
        inFlight.set(queries.inFlight());
    }

    private void answer(SearchResult result) {
        PartialAnswer answer = result.answer();
        if (!result.searched()) {
            shed.inc(answer.ticket().audit() ? 0 : 1);
        } else if (!answer.ticket().audit()) {
            incomplete.inc(answer.incomplete() ? 1 : 0);
            searches.inc();
            searchNanos.inc(result.searchNanos());
            queueNanos.inc(result.queueNanos());
            leaves.inc(result.leaves());
            loadReporter.searched(result.bucket(), result.searchNanos());
        }
        if (result.largeGroup() != null) {
            largeGroups.note(result.largeGroup());
        }
        inFlight.set(queries.inFlight());
        output.collect(record.replace(answer));
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        super.prepareSnapshotPreBarrier(checkpointId);
        // What the engine refuses of the writes before the barrier is sent before it.
        apply();
        queries.drain();
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        refused.snapshot();
        frontierState.clear();
        frontierState.add(frontier.current().toLongs());
    }

    @Override
    public OperatorSnapshotFutures snapshotState(
            long checkpointId,
            long timestamp,
            CheckpointOptions options,
            CheckpointStreamFactory streams)
            throws Exception {
        if (options.isUnalignedCheckpoint()) {
            throw new IllegalStateException(
                    "VStream needs aligned checkpoints: the marks that say where rows are must not"
                            + " overtake them. Set execution.checkpointing.unaligned to false.");
        }
        apply();
        OperatorSnapshotFutures futures =
                super.snapshotState(checkpointId, timestamp, options, streams);
        futures.setKeyedStateManagedFuture(
                state.snapshot(
                        new SegmentSnapshotStore.Target(
                                checkpointId,
                                options,
                                streams,
                                getContainingTask().getCancelables())));
        return futures;
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) throws Exception {
        super.notifyCheckpointComplete(checkpointId);
        state.completed(checkpointId);
    }

    @Override
    public void notifyCheckpointAborted(long checkpointId) throws Exception {
        super.notifyCheckpointAborted(checkpointId);
        state.aborted(checkpointId);
    }

    /**
     * Flink tells keyed state backends alone which checkpoints are dropped; this operator has none.
     */
    @Override
    public <K> KeyedStateBackend<K> getKeyedStateBackend() {
        return SubsumedCheckpoints.told(
                checkpointId -> {
                    if (state != null) {
                        state.subsumed(checkpointId);
                    }
                });
    }

    @Override
    public void finish() throws Exception {
        queries.drain();
        apply();
        readStats();
        if (settings.finalSnapshot() != null) {
            Path files = Path.of(settings.finalSnapshot(), "partition-" + partition);
            Folders.delete(files);
            state.engine().snapshot(Files.createDirectories(files));
        }
        super.finish();
    }

    @Override
    public void close() throws Exception {
        try {
            if (reads != null) {
                reads.close();
            }
            if (steering != null) {
                steering.close();
            }
            if (queries != null) {
                queries.close();
            }
        } finally {
            if (handoverExecutor != null) {
                handoverExecutor.close();
            }
            // There is none if it could not be opened.
            if (handover != null) {
                handover.close();
            }
            if (state != null) {
                state.close();
                state = null;
            }
            super.close();
        }
    }

    /** The frontier that all partitions of the checkpoint had: a shard may come from any. */
    private Frontier restoredFrontier() throws Exception {
        Frontier least = null;
        for (long[] one : frontierState.get()) {
            Frontier restored = Frontier.ofLongs(one);
            least = least == null ? restored : least.min(restored);
        }
        return least == null ? Frontier.NONE : least;
    }

    /** Applies the batch; cheap if there is none. */
    private void apply() {
        if (writes.isEmpty()) {
            return;
        }
        long began = System.nanoTime();
        Written written = state.engine().write(writes.buffer(), writes.count());
        writeNanos.inc(System.nanoTime() - began);
        withoutRow.inc(written.withoutRow());
        refused.report(writes, written);
        lastApplied.set(EpochClock.nanos());
        // After the engine has them: the quiet check reads this count.
        applied.inc(writes.count());
        writes.clear();
    }

    private void tickLater() {
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now + TICK_MILLIS, time -> tick());
    }

    private void tick() throws IOException {
        if (state == null) {
            return;
        }
        apply();
        if (reads != null) {
            reads.applied(frontier.current());
        }
        queries.shedLate();
        largeGroups.send();
        if (System.nanoTime() - statsDueNanos >= 0) {
            readStats();
        }
        tickLater();
    }

    private void readStats() throws IOException {
        long began = System.nanoTime();
        JsonNode stats = JSON.readTree(state.engine().statsJson());
        gauges.show(stats, frontier.current(), System.currentTimeMillis());
        steering.request(stats.path("recall").path("mean").asDouble(Double.NaN));
        control.tellReadPoint();
        long ended = System.nanoTime();
        statsDueNanos = ended + Math.max(STATS_NANOS_MIN, (ended - began) * STATS_SHARE);
    }

    private Path parentFolder() {
        return settings.stateFolder() != null
                ? Path.of(settings.stateFolder())
                : getContainingTask()
                        .getEnvironment()
                        .getTaskManagerInfo()
                        .getTmpWorkingDirectory()
                        .toPath();
    }
}
