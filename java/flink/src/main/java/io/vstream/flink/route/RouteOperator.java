package io.vstream.flink.route;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.Step;
import io.vstream.flink.handover.TemplateState;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Sends one copy of each query to every partition that may hold an answer.
 *
 * <p>Until the first template has settled, that is every partition; afterwards those that the
 * template names. While ranges change hands, from "announce" to "settle", a query visits those that
 * the old template or the new one names. An exact query always visits all partitions.
 *
 * <p>Templates are in every checkpoint. Checkpoints are aligned, so after a restore, at any
 * parallelism, the router goes on as it was. It acknowledges each command to every partition.
 *
 * <p>A share of the queries is audited: a second query, the shadow, goes to all partitions, which
 * answer it both ways. The user's query is not held up by it.
 */
public final class RouteOperator extends AbstractStreamOperator<QueryCopy>
        implements TwoInputStreamOperator<QueryRecord, Command, QueryCopy> {

    private static final long serialVersionUID = 1L;

    private static final int EXACT = -1;

    /** 2^64 divided by the golden ratio: spreads consecutive numbers over all of them. */
    private static final long SPREAD = 0x9e3779b97f4a7c15L;

    private final String collection;
    private final int dimension;
    private final PartitionCount partitionCount;
    private final double auditShare;
    private final boolean counted;

    private transient ShardKeys keys;
    private transient int partitions;
    private transient TemplateState templates;
    private transient boolean learned;
    private transient NativeRouter router;
    private transient NativeRouter next;
    private transient ByteBuffer placement;
    private transient int[] others;
    private transient ByteBuffer query;
    private transient ByteBuffer visits;
    private transient int[] chosen;
    private transient StreamRecord<QueryCopy> record;
    private transient Level epoch;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every query
     * @param partitionCount tells the parallelism of search in this attempt
     * @param auditShare share of the queries to audit, 0 to 1
     * @param counted whether the cost of queries is to be counted by cell
     */
    public RouteOperator(
            String collection,
            int dimension,
            PartitionCount partitionCount,
            double auditShare,
            boolean counted) {
        this.collection = collection;
        this.dimension = dimension;
        this.partitionCount = partitionCount;
        this.auditShare = auditShare;
        this.counted = counted;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        templates = new TemplateState(context.getOperatorStateStore());
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        templates.snapshot(subtask(), learned ? router : null, next, null);
    }

    @Override
    public void open() throws Exception {
        super.open();
        keys = ShardKeys.ofCollection(collection);
        partitions = partitionCount.count(getContainingTask());
        query = BufferLayout.allocate(BufferLayout.vectorBytes(dimension));
        visits = BufferLayout.allocate(partitions * BufferLayout.PARTITION_BYTES);
        placement =
                BufferLayout.allocate(BufferLayout.PLACEMENTS_MAX * BufferLayout.PLACEMENT_BYTES);
        chosen = new int[partitions];
        others = new int[partitions];
        record = new StreamRecord<>(null);
        epoch = new Meters(getMetricGroup()).level(Names.EPOCH);
        byte[] known = templates.take(TemplateState.TEMPLATE);
        learned = known != null;
        router = learned ? NativeRouter.fromBytes(known) : NativeRouter.unplaced(collection);
        byte[] announced = templates.take(TemplateState.NEXT);
        next = announced == null ? null : NativeRouter.fromBytes(announced);
        // A template that needs no training has no epoch that anyone waits for.
        epoch.set(learned ? router.epoch() : 0);
    }

    @Override
    public void close() throws Exception {
        if (router != null) {
            router.close();
        }
        if (next != null) {
            next.close();
        }
        super.close();
    }

    @Override
    public void processElement1(StreamRecord<QueryRecord> element) {
        QueryRecord in = element.getValue();
        BufferLayout.putVector(query, 0, in.vector());
        int count = everywhere(in) ? all() : choose();
        int bucket = -1;
        int owner = -1;
        if (counted && router.placed()) {
            router.place(0, query, placement);
            bucket = MovedRanges.bucket(placement.getLong(0));
            owner = keys.partition(placement.getInt(Long.BYTES), partitions);
        }
        for (int i = 0; i < count; i++) {
            send(in, in.ticket(), chosen[i], true, count, chosen[i] == owner ? bucket : -1);
        }
        if (audited(in.ticket())) {
            audit(in, count);
        }
    }

    @Override
    public void processElement2(StreamRecord<Command> element) throws Exception {
        Command event = element.getValue();
        if (event.step() == Step.ANNOUNCE && event.epoch() > router.epoch()) {
            if (next != null) {
                next.close();
            }
            next = NativeRouter.fromBytes(event.template());
        }
        if (event.step() == Step.SETTLE && next != null && next.epoch() == event.epoch()) {
            router.close();
            router = next;
            learned = true;
            next = null;
            epoch.set(router.epoch());
        }
        CommandAck ack = event.ack(subtask());
        for (int partition = 0; partition < partitions; partition++) {
            int shard = keys.shardIn(partition, partitions);
            output.collect(record.replace(QueryCopy.of(ack, shard)));
        }
    }

    private int subtask() {
        return getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
    }

    /**
     * True if every partition is to answer: exact queries, and those with a filter. The fan-out is
     * learned from queries without one, and the nearest rows that match may lie anywhere: a filter
     * on a topic that the query is not about has all of them in other partitions.
     */
    private static boolean everywhere(QueryRecord in) {
        return in.ticket().effort() == EXACT || in.asked().filter().length > 0;
    }

    /** Fills {@code chosen} with the partitions that the template, or one of two, names. */
    private int choose() {
        if (!router.placed()) {
            return all();
        }
        int count = fanOut(router, chosen);
        return next == null ? count : union(count, fanOut(next, others));
    }

    private int fanOut(NativeRouter by, int[] out) {
        int count = by.fanOut(query, partitions, visits);
        for (int i = 0; i < count; i++) {
            out[i] = visits.getInt(i * BufferLayout.PARTITION_BYTES);
        }
        return count;
    }

    /** Adds {@code others} to {@code chosen}; both ascend. */
    private int union(int count, int more) {
        int size = count;
        for (int i = 0; i < more; i++) {
            if (Arrays.binarySearch(chosen, 0, count, others[i]) < 0) {
                chosen[size++] = others[i];
            }
        }
        Arrays.sort(chosen, 0, size);
        return size;
    }

    /** Fills {@code chosen} with every partition. */
    private int all() {
        for (int i = 0; i < partitions; i++) {
            chosen[i] = i;
        }
        return partitions;
    }

    private void audit(QueryRecord in, int visited) {
        Ticket shadow = in.ticket().asAudit();
        int next = 0;
        for (int partition = 0; partition < partitions; partition++) {
            boolean inFanOut = next < visited && chosen[next] == partition;
            next += inFanOut ? 1 : 0;
            send(in, shadow, partition, inFanOut, partitions, -1);
        }
    }

    private void send(
            QueryRecord in,
            Ticket ticket,
            int partition,
            boolean inFanOut,
            int expected,
            int bucket) {
        int shard = keys.shardIn(partition, partitions);
        output.collect(
                record.replace(
                        new QueryCopy(
                                ticket,
                                shard,
                                inFanOut,
                                expected,
                                bucket,
                                in.vector(),
                                ticket.audit() ? in.asked().withoutFields() : in.asked(),
                                null,
                                QueryCopy.WHOLE)));
    }

    /** A fixed function of the number, so that a replay audits the same queries. */
    private boolean audited(Ticket ticket) {
        double unit = (ticket.number() * SPREAD >>> 11) * 0x1.0p-53;
        return ticket.effort() != EXACT && unit < auditShare;
    }
}
