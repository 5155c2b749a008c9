package io.vstream.flink.place;

import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.MarkOffsets;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.job.Fault;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.route.RouteEvent;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.state.Totals;
import io.vstream.flink.state.VectorSerializer;
import io.vstream.nativecore.EngineException;
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
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.OutputTag;

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
 *   <li><b>Every unplaced row is placed later.</b> While the template is only the first one, by id,
 *       the vector of each live row is held in keyed state beside its location. A template arrives
 *       by broadcast and is stored, all held rows are re-placed as ordinary moves, and the mark
 *       "settled" is sent, within one call: a checkpoint sees all of it or nothing. The trainer is
 *       one task and checkpoints are aligned, so all subtasks agree in every checkpoint.
 *   <li><b>A mark follows the writes that it speaks of.</b> Marks of the sources are gathered and
 *       sent on to every partition, at most every {@link MarkOffsets#EVERY_MILLIS}.
 * </ul>
 */
public final class Place extends AbstractStreamOperator<Write>
        implements TwoInputStreamOperator<VectorRecord, RouteEvent, Write> {

    private static final long serialVersionUID = 1L;

    /** Side output of the marks, for the query routers. */
    public static final OutputTag<RouteEvent> SETTLED = new OutputTag<>("settled", RouteEvent.TYPE);

    private static final int UPSERTS = 0;
    private static final int DELETES = 1;
    private static final int UNKNOWN_DELETES = 2;
    private static final int COPIES = 3;
    private static final int MOVES = 4;
    private static final int REFUSED = 5;

    /** Name of the only template in broadcast state. */
    private static final Integer TEMPLATE = 0;

    private final String collection;
    private final int dimension;
    private final int partitions;
    private final EnumSet<Fault> faults;

    private transient ValueState<Location> location;
    private transient ValueStateDescriptor<float[]> heldDescriptor;
    private transient ValueState<float[]> held;
    private transient BroadcastState<Integer, byte[]> template;
    private transient ListState<Long> clockState;
    private transient long clock;
    private transient Totals totals;
    private transient Count placed;
    private transient Count sent;
    private transient Level epoch;
    private transient Placements placements;
    private transient StreamRecord<Write> record;
    private transient Write write;
    private transient long[] offsets;
    private transient boolean markScheduled;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every vector
     * @param partitions parallelism of search
     * @param faults defects for tests
     */
    public Place(String collection, int dimension, int partitions, EnumSet<Fault> faults) {
        this.collection = collection;
        this.dimension = dimension;
        this.partitions = partitions;
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
        Meters meters = new Meters(getMetricGroup());
        totals =
                new Totals(
                        meters,
                        Names.UPSERTS,
                        Names.DELETES,
                        Names.UNKNOWN_DELETES,
                        Names.COPIES,
                        Names.MOVES,
                        Names.BAD + BadRecord.Reason.REFUSED.metric());
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
    }

    @Override
    public void open() throws Exception {
        super.open();
        write = new Write();
        offsets = Frontier.NONE.offsets();
        record = new StreamRecord<>(write);
        byte[] known = template.get(TEMPLATE);
        NativeRouter router =
                known == null ? NativeRouter.unplaced(collection) : NativeRouter.fromBytes(known);
        placements = new Placements(dimension, router);
        // A template that needs no training has no epoch that anyone waits for.
        epoch.set(known == null ? 0 : placements.epoch());
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
            markLater();
            return;
        }
        if (in.delete) {
            delete(in.id);
        } else {
            upsert(in);
        }
        // After everything was sent: the quiet check reads these counts in this order.
        placed.inc();
    }

    @Override
    public void processElement2(StreamRecord<RouteEvent> element) throws Exception {
        RouteEvent event = element.getValue();
        if (!event.isTemplate() || event.epoch() <= placements.epoch()) {
            return;
        }
        template.put(TEMPLATE, event.template());
        placements.use(NativeRouter.fromBytes(event.template()));
        getKeyedStateBackend()
                .applyToAllKeys(
                        VoidNamespace.INSTANCE,
                        VoidNamespaceSerializer.INSTANCE,
                        heldDescriptor,
                        (Object id, ValueState<float[]> row) -> {
                            move((Long) id, row.value());
                            row.clear();
                        });
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        output.collect(
                SETTLED, new StreamRecord<>(RouteEvent.settled(event.epoch(), subtask, subtasks)));
        epoch.set(event.epoch());
    }

    private void delete(long id) throws Exception {
        Location old = location.value();
        if (old == null) {
            totals.get(UNKNOWN_DELETES).inc();
            return;
        }
        long version = nextVersion(old);
        for (int i = 0; i < old.count(); i++) {
            if (!faults.contains(Fault.DROP_DELETE) && firstInPartition(old, i)) {
                sendDelete(id, version, old, i);
            }
        }
        location.clear();
        if (!placements.placed()) {
            held.clear();
        }
        totals.get(DELETES).inc();
    }

    private void upsert(VectorRecord in) throws Exception {
        if (!locate(in.id, in.vector)) {
            return;
        }
        int copies = send(in.id, in.vector, location.value());
        if (!placements.placed()) {
            held.update(in.vector);
        }
        totals.get(UPSERTS).inc();
        totals.get(COPIES).inc(copies);
    }

    /** Re-places a held row; the current key is {@code id}. */
    private void move(long id, float[] vector) throws Exception {
        if (locate(id, vector)) {
            send(id, vector, location.value());
            totals.get(MOVES).inc();
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

    /** Sends what turns {@code old} (null for none) into the placements; returns the copies. */
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
        for (int i = 0; old != null && i < old.count(); i++) {
            if (firstInPartition(old, i)
                    && !inPartition(now, partition(old, i))
                    && !faults.contains(Fault.DUPLICATE_ON_MOVE)) {
                sendDelete(id, version, old, i);
            }
        }
        location.update(now);
        return copies;
    }

    private void markLater() {
        if (!markScheduled) {
            markScheduled = true;
            long now = getProcessingTimeService().getCurrentProcessingTime();
            getProcessingTimeService()
                    .registerTimer(now + MarkOffsets.EVERY_MILLIS, time -> mark());
        }
    }

    private void mark() {
        markScheduled = false;
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        for (int partition = 0; partition < partitions; partition++) {
            write.mark(subtask, offsets, ShardKeys.shardIn(partition, partitions));
            output.collect(record);
        }
    }

    private void sendDelete(long id, long version, Location old, int copy) {
        write.delete(id, version, old.code(copy), old.shard(copy));
        output.collect(record);
        sent.inc();
    }

    private long nextVersion(Location old) {
        if (old != null && faults.contains(Fault.STALE_VERSION_WINS)) {
            return old.version() - 1;
        }
        clock = Math.max(clock, old == null ? 0 : old.version()) + 1;
        return clock;
    }

    private int partition(Location place, int copy) {
        return ShardKeys.partition(place.shard(copy), partitions);
    }

    /** True if no earlier copy is in the same partition, where they would be one row. */
    private boolean firstInPartition(Location place, int copy) {
        for (int i = 0; i < copy; i++) {
            if (partition(place, i) == partition(place, copy)) {
                return false;
            }
        }
        return true;
    }

    private boolean inPartition(Location place, int partition) {
        for (int i = 0; i < place.count(); i++) {
            if (partition(place, i) == partition) {
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
