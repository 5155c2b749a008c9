package io.vstream.flink.place;

import io.vstream.flink.fault.Fault;
import io.vstream.flink.handover.Command;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.row.Schema;
import io.vstream.flink.state.Totals;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.RowFields;
import java.util.EnumSet;
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
 *   <li><b>An update goes where the row is</b>, to every partition that may hold a copy, and
 *       changes its version and not its place. A partition without the row skips it.
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
    private static final int UPDATES = 7;
    private static final int UNKNOWN_UPDATES = 8;
    private static final int STALE = 9;
    private static final int BAD_ID = 10;

    private final String collection;
    private final int dimension;
    private final Schema schema;
    private final PartitionCount partitionCount;
    private final long lifeMillis;
    private final EnumSet<Fault> faults;

    private transient PlaceState state;
    private transient Carried carried;
    private transient TemplateSwitch template;
    private transient CopyTracker copies;
    private transient WriteSender writes;
    private transient Expiry expiry;
    private transient Totals totals;
    private transient Count placed;
    private transient Count sent;
    private transient Level epoch;
    private transient OffsetsForwarder offsets;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every vector
     * @param schema of the collection
     * @param partitionCount tells the parallelism of search in this attempt
     * @param lifeMillis event time that a row lives for, 0 for ever
     * @param faults defects for tests
     */
    public PlaceOperator(
            String collection,
            int dimension,
            Schema schema,
            PartitionCount partitionCount,
            long lifeMillis,
            EnumSet<Fault> faults) {
        this.collection = collection;
        this.dimension = dimension;
        this.schema = schema;
        this.partitionCount = partitionCount;
        this.lifeMillis = lifeMillis;
        this.faults = faults;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        state = new PlaceState(context);
        carried = new Carried(context.getKeyedStateStore(), schema);
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
                        Names.ROWS_EXPIRED,
                        Names.UPDATES,
                        Names.UNKNOWN_UPDATES,
                        Names.STALE,
                        Names.BAD + BadRecord.Reason.BAD_ID.metric());
        totals.restore(context.getOperatorStateStore());
        placed = meters.count(Names.PLACED);
        sent = meters.count(Names.SENT);
        epoch = meters.level(Names.EPOCH);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        totals.snapshot();
        state.snapshot(expiry == null ? Frontier.NO_TIME : Frontier.kept(expiry.watermark()));
        template.snapshot(state.templates(), subtask());
    }

    @Override
    public void open() throws Exception {
        super.open();
        int partitions = partitionCount.count(getContainingTask());
        ShardKeys keys = ShardKeys.ofCollection(collection);
        template = new TemplateSwitch(collection, dimension, state.templates());
        copies = new CopyTracker(keys, partitions);
        writes = new WriteSender(output, keys, partitions, copies, sent);
        offsets =
                new OffsetsForwarder(
                        getProcessingTimeService(), known -> writes.offsets(subtask(), known));
        expiry = expiry();
        // A template that needs no training has no epoch that anyone waits for.
        epoch.set(template.epochDone());
    }

    /** Null if rows live for ever, also those that were restored. */
    private Expiry expiry() throws Exception {
        Expiry made =
                new Expiry(
                        lifeMillis,
                        state.end(),
                        getInternalTimerService("expiry", VoidNamespaceSerializer.INSTANCE, this),
                        state.watermark());
        if (lifeMillis > 0) {
            return made;
        }
        state.forEachEnd(getKeyedStateBackend(), (id, old) -> made.cancel());
        return null;
    }

    @Override
    public void close() throws Exception {
        if (template != null) {
            template.close();
        }
        super.close();
    }

    @Override
    public void processElement1(StreamRecord<VectorRecord> element) throws Exception {
        VectorRecord in = element.getValue();
        if (in.offsets != null) {
            offsets.add(in.offsets);
            return;
        }
        if (carried.isStale(in)) {
            totals.get(STALE).inc();
        } else if (in.delete) {
            delete(in);
        } else if (in.update) {
            update(element);
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
        Command command = element.getValue();
        switch (command.step()) {
            case ANNOUNCE -> template.announce(command);
            case SWITCH -> {
                if (template.change(command)) {
                    placeHeldRows();
                }
            }
            case DONE -> {
                if (template.end(command)) {
                    deleteOldCopies();
                }
            }
            default -> {
                // Adopting and settling change nothing here, but are acknowledged.
            }
        }
        writes.acknowledge(command.ack(subtask()));
    }

    private void placeHeldRows() throws Exception {
        state.forEachHeld(
                getKeyedStateBackend(),
                (id, row) -> {
                    move(id, row.value());
                    row.clear();
                    carried.release();
                });
    }

    /** The new owners have all rows that they should: the old copies go. */
    private void deleteOldCopies() throws Exception {
        state.forEachLeaving(
                getKeyedStateBackend(),
                (id, old) -> {
                    Location now = state.location().value();
                    copies.findAt(old.value());
                    writes.deletes(id, now.version(), now);
                    old.clear();
                });
        epoch.set(template.epochDone());
    }

    /** The time to live of a row is over. */
    @Override
    public void onEventTime(InternalTimer<Long, VoidNamespace> timer) throws Exception {
        state.end().clear();
        remove(timer.getKey(), state.location().value());
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
        if (refusesOther(in)) {
            return;
        }
        if (expiry.over(element.getTimestamp())) {
            Location old = state.location().value();
            if (old != null) {
                expiry.cancel();
                remove(in.id, old);
            }
            carried.applied(in);
            totals.get(EXPIRED).inc();
        } else if (upsert(in)) {
            expiry.begin(element.getTimestamp());
        }
    }

    private void delete(VectorRecord in) throws Exception {
        Location old = state.location().value();
        if (old == null || carried.isOther(in)) {
            if (old == null) {
                // An older record, still on its way, must not bring the row back.
                carried.applied(in);
            }
            totals.get(UNKNOWN_DELETES).inc();
            return;
        }
        if (expiry != null) {
            expiry.cancel();
        }
        remove(in.id, old);
        carried.applied(in);
        totals.get(DELETES).inc();
    }

    /** Changes what a row carries, where the row is; its vector and so its place stay. */
    private void update(StreamRecord<VectorRecord> element) throws Exception {
        VectorRecord in = element.getValue();
        Location old = state.location().value();
        if (old == null || carried.isOther(in)) {
            totals.get(UNKNOWN_UPDATES).inc();
            return;
        }
        if (expiry != null && element.hasTimestamp()) {
            if (expiry.over(element.getTimestamp())) {
                totals.get(EXPIRED).inc();
                return;
            }
            expiry.begin(element.getTimestamp());
        }
        Location now = old.at(nextVersion(old));
        // The holders of a row stay what they are: an old copy that is still there is updated too.
        Location before = template.moves() == null ? null : state.leaving().value();
        copies.find(old, before, template);
        writes.updates(in.id, now.version(), in.fields);
        state.location().update(now);
        if (!template.placements().placed()) {
            carried.change(in.fields);
        }
        carried.applied(in);
        totals.get(UPDATES).inc();
    }

    private void remove(long id, Location old) throws Exception {
        long version = nextVersion(old);
        findHolders(old);
        if (!faults.contains(Fault.DROP_DELETE)) {
            writes.deletes(id, version, null);
        }
        state.location().clear();
        carried.remove();
        if (!template.placements().placed()) {
            state.held().clear();
            carried.release();
        }
    }

    /** False if the vector was refused, which leaves an older row as it is. */
    private boolean upsert(VectorRecord in) throws Exception {
        if (refusesOther(in) || !locate(in.id, in.vector)) {
            return false;
        }
        Location old = state.location().value();
        int count = send(in.id, in.vector, in.fields, old);
        if (old != null) {
            findHolders(old);
            if (!faults.contains(Fault.DUPLICATE_ON_MOVE)) {
                Location now = state.location().value();
                writes.deletes(in.id, now.version(), now);
            }
        }
        if (!template.placements().placed()) {
            state.held().update(in.vector);
            carried.hold(in.fields);
        }
        carried.written(in);
        carried.applied(in);
        totals.get(UPSERTS).inc();
        totals.get(COPIES).inc(count);
        return true;
    }

    /** Re-places a held row, whose old copies stay for now; the current key is {@code id}. */
    private void move(long id, float[] vector) throws Exception {
        if (locate(id, vector)) {
            Location old = state.location().value();
            send(id, vector, carried.heldFields(), old);
            state.leaving().update(old);
            totals.get(MOVES_MADE).inc();
        }
    }

    /** Asks the template; false if it refuses the vector, which is then a bad record. */
    private boolean locate(long id, float[] vector) {
        try {
            template.placements().place(id, vector);
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
    private int send(long id, float[] vector, RowFields fields, Location old) throws Exception {
        Location now = Location.of(nextVersion(old), template.placements());
        int count = writes.upserts(id, vector, fields, now);
        state.location().update(now);
        return count;
    }

    /** Finds every partition that may hold a copy of the current row, which was at {@code old}. */
    private void findHolders(Location old) throws Exception {
        Location before = template.moves() == null ? null : state.leaving().value();
        copies.find(old, before, template);
        if (before != null) {
            state.leaving().clear();
        }
    }

    private int subtask() {
        return getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
    }

    private long nextVersion(Location old) {
        if (old != null && faults.contains(Fault.STALE_VERSION_WINS)) {
            return old.version() - 1;
        }
        return state.nextVersion(old);
    }

    /** True if the id is held by a row with another text; the record is refused then. */
    private boolean refusesOther(VectorRecord in) throws Exception {
        if (!carried.isOther(in)) {
            return false;
        }
        refuse(
                BAD_ID,
                BadRecord.Reason.BAD_ID,
                "record '" + in.fields.name() + "': its hash is that of another id");
        return true;
    }

    private void refuse(long id, String why) {
        refuse(
                REFUSED,
                BadRecord.Reason.REFUSED,
                "record " + Long.toUnsignedString(id) + ": " + why);
    }

    private void refuse(int total, BadRecord.Reason reason, String text) {
        totals.get(total).inc();
        output.collect(BadRecord.TAG, new StreamRecord<>(new BadRecord(reason, text)));
    }
}
