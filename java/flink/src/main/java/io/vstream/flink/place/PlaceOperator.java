package io.vstream.flink.place;

import io.vstream.flink.fault.Fault;
import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.state.Totals;
import io.vstream.flink.state.VectorSerializer;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import java.util.EnumSet;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Gives every record its version and its place, keyed by id, and sends the writes that follow.
 *
 * <p>What holds here, and why:
 *
 * <ul>
 *   <li><b>Order per id and partition.</b> All records of an id pass one subtask, and each (place,
 *       search) pair of subtasks is one channel in order. So a partition sees the writes of an id
 *       in the order of their versions.
 *   <li><b>Versions never restart.</b> A version is one more than both the id's last version and
 *       the subtask's clock, which counts every version it gave. The clock is union state and a
 *       restored subtask starts from the largest clock of all, so an id that was deleted (and has
 *       no state any more), or that moved to another subtask, still gets a larger version. Versions
 *       given after a checkpoint are given again after a restore from it, to the same index state.
 *   <li><b>A partition holds at most one copy of an id</b>: the engine replaces by id. Within a
 *       partition a move is one upsert; between partitions it is an upsert there and a delete here.
 *       Both have one version, so they must never meet in one partition: how many partitions there
 *       are is read off the channels to search, and not off the program.
 *   <li><b>Every unplaced row is placed later.</b> While the template is only the first one, by id,
 *       the vector of each live row is held in keyed state beside its location. When the control
 *       task says "switch", all held rows are sent to their places within one call; the old copies
 *       are deleted when it says "done", so that a row is never in neither place.
 *   <li><b>A code says who owns a row.</b> Ranges change hands without a word to each row, so an
 *       owner is what the template says of the stored code; from "switch" to "done" the old owner
 *       of a range gets every delete as well. Each command is acknowledged to every partition,
 *       behind the writes before it: docs/design/handover.md.
 *   <li><b>A row's time is over before the watermark says so.</b> With a time to live a row is
 *       deleted by a timer in event time, and timers run before their watermark goes on. So no
 *       answer whose watermark has reached the end of a row holds it. Partitions go on with the
 *       watermark of their checkpoint, so place does: what was too late stays too late.
 *   <li><b>Source offsets follow the writes that they cover.</b> Offsets of the sources are
 *       gathered and sent on to every partition, at most every {@link
 *       Frontier#OFFSETS_EVERY_MILLIS}.
 * </ul>
 */
public final class PlaceOperator extends AbstractStreamOperator<Write>
        implements TwoInputStreamOperator<VectorRecord, Command, Write>,
                Triggerable<Long, VoidNamespace> {

    private static final long serialVersionUID = 1L;

    private static final int UPSERTS = 0;
    private static final int DELETES = 1;
    private static final int UNKNOWN_DELETES = 2;
    private static final int COPIES = 3;
    private static final int MOVES_MADE = 4;
    private static final int REFUSED = 5;
    private static final int EXPIRED = 6;

    /** Name of the template in broadcast state. */
    private static final Integer TEMPLATE = 0;

    /** Name of the announced one. */
    private static final Integer NEXT = 1;

    /** Name of the ranges that are in two hands; there from "switch" to "done". */
    private static final Integer MOVES = 2;

    private final String collection;
    private final int dimension;
    private final PartitionCount partitionCount;
    private final long lifeMillis;
    private final EnumSet<Fault> faults;

    private transient int partitions;
    private transient ValueState<Location> location;
    private transient ValueStateDescriptor<float[]> heldDescriptor;
    private transient ValueState<float[]> held;
    private transient ValueStateDescriptor<Location> leavingDescriptor;
    private transient ValueState<Location> leaving;
    private transient BroadcastState<Integer, byte[]> template;
    private transient ListState<Long> clockState;
    private transient long clock;
    private transient ListState<Long> watermarkState;
    private transient long watermark;
    private transient Totals totals;
    private transient Count placed;
    private transient Count sent;
    private transient Level epoch;
    private transient Placements placements;
    private transient Holders holders;
    private transient ValueStateDescriptor<Long> endDescriptor;
    private transient ValueState<Long> end;
    private transient Expiry expiry;
    private transient MovedRanges moves;
    private transient StreamRecord<Write> record;
    private transient Write write;
    private transient long[] offsets;
    private transient boolean offsetsScheduled;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every vector
     * @param partitionCount tells the parallelism of search in this attempt
     * @param lifeMillis event time that a row lives for, 0 for ever
     * @param faults defects for tests
     */
    public PlaceOperator(
            String collection,
            int dimension,
            PartitionCount partitionCount,
            long lifeMillis,
            EnumSet<Fault> faults) {
        this.collection = collection;
        this.dimension = dimension;
        this.partitionCount = partitionCount;
        this.lifeMillis = lifeMillis;
        this.faults = faults;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        location =
                context.getKeyedStateStore()
                        .getState(
                                new ValueStateDescriptor<>(
                                        "location", new Location.LocationSerializer()));
        heldDescriptor = new ValueStateDescriptor<>("held", new VectorSerializer());
        held = context.getKeyedStateStore().getState(heldDescriptor);
        leavingDescriptor =
                new ValueStateDescriptor<>("leaving", new Location.LocationSerializer());
        leaving = context.getKeyedStateStore().getState(leavingDescriptor);
        endDescriptor = new ValueStateDescriptor<>("end", LongSerializer.INSTANCE);
        end = context.getKeyedStateStore().getState(endDescriptor);
        template =
                context.getOperatorStateStore()
                        .getBroadcastState(
                                new MapStateDescriptor<>(
                                        "template",
                                        IntSerializer.INSTANCE,
                                        BytePrimitiveArraySerializer.INSTANCE));
        clockState =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>("clock", LongSerializer.INSTANCE));
        for (long old : clockState.get()) {
            clock = Math.max(clock, old);
        }
        watermarkState =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>("watermark", LongSerializer.INSTANCE));
        watermark = least(watermarkState.get());
        Meters meters = new Meters(getMetricGroup());
        totals =
                new Totals(
                        meters,
                        Names.UPSERTS,
                        Names.DELETES,
                        Names.UNKNOWN_DELETES,
                        Names.COPIES,
                        Names.MOVES,
                        Names.BAD + BadRecord.Reason.REFUSED.metric(),
                        Names.ROWS_EXPIRED);
        totals.restore(context.getOperatorStateStore());
        placed = meters.count(Names.PLACED);
        sent = meters.count(Names.SENT);
        epoch = meters.level(Names.EPOCH);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        totals.snapshot();
        clockState.clear();
        clockState.add(clock);
        watermarkState.clear();
        watermarkState.add(expiry == null ? Frontier.NO_TIME : Frontier.kept(expiry.watermark()));
    }

    /** The watermark that all subtasks of the checkpoint had reached. */
    private static long least(Iterable<Long> watermarks) {
        long least = Long.MAX_VALUE;
        for (long one : watermarks) {
            least = Math.min(least, one);
        }
        return watermarks.iterator().hasNext() ? least : Frontier.NO_TIME;
    }

    @Override
    public void open() throws Exception {
        super.open();
        partitions = partitionCount.count(getContainingTask());
        write = new Write();
        offsets = Frontier.NONE.offsets();
        record = new StreamRecord<>(write);
        byte[] known = template.get(TEMPLATE);
        NativeRouter router =
                known == null ? NativeRouter.unplaced(collection) : NativeRouter.fromBytes(known);
        placements = new Placements(dimension, router);
        holders = new Holders(partitions);
        expiry = expiry();
        byte[] pending = template.get(MOVES);
        moves = pending == null ? null : new MovedRanges(pending);
        // A template that needs no training has no epoch that anyone waits for.
        epoch.set(known == null ? 0 : placements.epoch() - (moves == null ? 0 : 1));
    }

    /** Null if rows live for ever, also those that were restored. */
    private Expiry expiry() throws Exception {
        Expiry made =
                new Expiry(
                        lifeMillis,
                        end,
                        getInternalTimerService("expiry", VoidNamespaceSerializer.INSTANCE, this),
                        watermark);
        if (lifeMillis > 0) {
            return made;
        }
        getKeyedStateBackend()
                .applyToAllKeys(
                        VoidNamespace.INSTANCE,
                        VoidNamespaceSerializer.INSTANCE,
                        endDescriptor,
                        (Object id, ValueState<Long> old) -> made.cancel());
        return null;
    }

    @Override
    public void close() throws Exception {
        if (placements != null) {
            placements.close();
        }
        super.close();
    }

    @Override
    public void processElement1(StreamRecord<VectorRecord> element) throws Exception {
        VectorRecord in = element.getValue();
        if (in.offsets != null) {
            offsets = Frontier.max(offsets, in.offsets);
            scheduleOffsets();
            return;
        }
        if (in.delete) {
            delete(in.id);
        } else if (expiry == null) {
            upsert(in);
        } else {
            upsertForATime(element);
        }
        // After everything was sent: the quiet check reads these counts in this order.
        placed.inc();
    }

    @Override
    public void processElement2(StreamRecord<Command> element) throws Exception {
        Command event = element.getValue();
        switch (event.step()) {
            case ANNOUNCE -> {
                if (event.epoch() > placements.epoch()) {
                    template.put(NEXT, event.template());
                }
            }
            case SWITCH -> {
                if (event.epoch() > placements.epoch()) {
                    change(event);
                }
            }
            case DONE -> {
                if (moves != null && event.epoch() == placements.epoch()) {
                    leave();
                }
            }
            default -> {
                // Adopting and settling change nothing here, but are acknowledged.
            }
        }
        CommandAck ack = event.ack(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        for (int partition = 0; partition < partitions; partition++) {
            write.acknowledge(ack, ShardKeys.shardIn(partition, partitions));
            output.collect(record);
        }
    }

    /** Places by the announced template from now on. */
    private void change(Command event) throws Exception {
        byte[] next = template.get(NEXT);
        template.put(TEMPLATE, next);
        template.remove(NEXT);
        template.put(MOVES, event.moves());
        placements.use(NativeRouter.fromBytes(next));
        moves = new MovedRanges(event.moves());
        getKeyedStateBackend()
                .applyToAllKeys(
                        VoidNamespace.INSTANCE,
                        VoidNamespaceSerializer.INSTANCE,
                        heldDescriptor,
                        (Object id, ValueState<float[]> row) -> {
                            move((Long) id, row.value());
                            row.clear();
                        });
    }

    /** The new owners have all they should: the old copies go. */
    private void leave() throws Exception {
        template.remove(MOVES);
        moves = null;
        getKeyedStateBackend()
                .applyToAllKeys(
                        VoidNamespace.INSTANCE,
                        VoidNamespaceSerializer.INSTANCE,
                        leavingDescriptor,
                        (Object id, ValueState<Location> old) -> {
                            Location now = location.value();
                            holders.clear();
                            addCopies(old.value());
                            sendDeletes((Long) id, now.version(), now);
                            old.clear();
                        });
        epoch.set(placements.epoch());
    }

    /** The time to live of a row is over. */
    @Override
    public void onEventTime(InternalTimer<Long, VoidNamespace> timer) throws Exception {
        end.clear();
        remove(timer.getKey(), location.value());
        totals.get(EXPIRED).inc();
    }

    @Override
    public void onProcessingTime(InternalTimer<Long, VoidNamespace> timer) {
        throw new IllegalStateException("Rows end in event time.");
    }

    /** A row whose time is over before it comes replaces the older one by none. */
    private void upsertForATime(StreamRecord<VectorRecord> element) throws Exception {
        VectorRecord in = element.getValue();
        if (!element.hasTimestamp()) {
            refuse(in.id, "it has no event time, which a time to live counts from");
            return;
        }
        if (expiry.over(element.getTimestamp())) {
            if (location.value() != null) {
                expiry.cancel();
                remove(in.id, location.value());
            }
            totals.get(EXPIRED).inc();
        } else if (upsert(in)) {
            expiry.begin(element.getTimestamp());
        }
    }

    private void delete(long id) throws Exception {
        Location old = location.value();
        if (old == null) {
            totals.get(UNKNOWN_DELETES).inc();
            return;
        }
        if (expiry != null) {
            expiry.cancel();
        }
        remove(id, old);
        totals.get(DELETES).inc();
    }

    private void remove(long id, Location old) throws Exception {
        long version = nextVersion(old);
        findHolders(old);
        if (!faults.contains(Fault.DROP_DELETE)) {
            sendDeletes(id, version, null);
        }
        location.clear();
        if (!placements.placed()) {
            held.clear();
        }
    }

    /** False if the vector was refused, which leaves an older row as it is. */
    private boolean upsert(VectorRecord in) throws Exception {
        if (!locate(in.id, in.vector)) {
            return false;
        }
        Location old = location.value();
        int copies = send(in.id, in.vector, old);
        if (old != null) {
            findHolders(old);
            if (!faults.contains(Fault.DUPLICATE_ON_MOVE)) {
                Location now = location.value();
                sendDeletes(in.id, now.version(), now);
            }
        }
        if (!placements.placed()) {
            held.update(in.vector);
        }
        totals.get(UPSERTS).inc();
        totals.get(COPIES).inc(copies);
        return true;
    }

    /** Re-places a held row, whose old copies stay for now; the current key is {@code id}. */
    private void move(long id, float[] vector) throws Exception {
        if (locate(id, vector)) {
            Location old = location.value();
            send(id, vector, old);
            leaving.update(old);
            totals.get(MOVES_MADE).inc();
        }
    }

    /** Asks the template; false if it refuses the vector, which is then a bad record. */
    private boolean locate(long id, float[] vector) {
        try {
            placements.place(id, vector);
            return true;
        } catch (EngineException e) {
            if (e.kind() != EngineException.Kind.INVALID) {
                throw e;
            }
            refuse(id, e.getMessage());
            return false;
        }
    }

    /** Sends the copies of a row that follows {@code old} (null for none); returns how many. */
    private int send(long id, float[] vector, Location old) throws Exception {
        long version = nextVersion(old);
        Location now = Location.of(version, placements);
        int copies = 0;
        for (int i = 0; i < now.count(); i++) {
            if (firstInPartition(now, i)) {
                write.upsert(id, version, now.code(i), now.shard(i), vector);
                output.collect(record);
                sent.inc();
                copies++;
            }
        }
        location.update(now);
        return copies;
    }

    /** Finds every partition that may hold a copy of a row that was at {@code old}. */
    private void findHolders(Location old) throws Exception {
        holders.clear();
        if (placements.moving()) {
            long code = old.code(0);
            holders.add(partition(placements.shardOf(code)), code, placements.shardOf(code));
        } else {
            addCopies(old);
        }
        if (moves != null) {
            int range = moves.rangeOf(old.code(0));
            if (range >= 0) {
                int shard = moves.from(range);
                holders.add(partition(shard), old.code(0), shard);
            }
            Location before = leaving.value();
            if (before != null) {
                addCopies(before);
                leaving.clear();
            }
        }
    }

    private void addCopies(Location place) {
        for (int i = 0; i < place.count(); i++) {
            holders.add(partition(place.shard(i)), place.code(i), place.shard(i));
        }
    }

    /** Sends a delete to every holder that has no copy of {@code now} (null for none). */
    private void sendDeletes(long id, long version, Location now) {
        for (int i = 0; i < holders.count(); i++) {
            int shard = holders.shard(i);
            if (now == null || !inPartition(now, partition(shard))) {
                write.delete(id, version, holders.code(i), shard);
                output.collect(record);
                sent.inc();
            }
        }
    }

    private void scheduleOffsets() {
        if (!offsetsScheduled) {
            offsetsScheduled = true;
            long now = getProcessingTimeService().getCurrentProcessingTime();
            getProcessingTimeService()
                    .registerTimer(now + Frontier.OFFSETS_EVERY_MILLIS, time -> sendOffsets());
        }
    }

    private void sendOffsets() {
        offsetsScheduled = false;
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        for (int partition = 0; partition < partitions; partition++) {
            write.offsets(subtask, offsets, ShardKeys.shardIn(partition, partitions));
            output.collect(record);
        }
    }

    private long nextVersion(Location old) {
        if (old != null && faults.contains(Fault.STALE_VERSION_WINS)) {
            return old.version() - 1;
        }
        clock = Math.max(clock, old == null ? 0 : old.version()) + 1;
        return clock;
    }

    private int partition(int shard) {
        return ShardKeys.partition(shard, partitions);
    }

    /** True if no earlier copy is in the same partition, where they would be one row. */
    private boolean firstInPartition(Location place, int copy) {
        for (int i = 0; i < copy; i++) {
            if (partition(place.shard(i)) == partition(place.shard(copy))) {
                return false;
            }
        }
        return true;
    }

    private boolean inPartition(Location place, int partition) {
        for (int i = 0; i < place.count(); i++) {
            if (partition(place.shard(i)) == partition) {
                return true;
            }
        }
        return false;
    }

    private void refuse(long id, String why) {
        totals.get(REFUSED).inc();
        output.collect(
                BadRecord.TAG,
                new StreamRecord<>(
                        new BadRecord(
                                BadRecord.Reason.REFUSED,
                                "record " + Long.toUnsignedString(id) + ": " + why)));
    }
}
