package io.vstream.flink.route;

import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Sends one copy of each query to every partition that may hold an answer.
 *
 * <p>Until every place subtask has said that its rows stand where the template says, a query visits
 * all partitions; afterwards those that the template names. Between a mark and the rows that it
 * speaks of there may be network buffers on the way to search, so the router gives them a moment
 * more ({@link #GRACE_MILLIS}). An exact query always visits all partitions.
 *
 * <p>Template and marks are broadcast state. Checkpoints are aligned, so a checkpoint holds either
 * no template or the template with all marks, and the rows that they speak of: after a restore, at
 * any parallelism, the router uses a template that it finds at once.
 *
 * <p>A share of the queries is audited: a second query, the shadow, goes to all partitions, which
 * answer it both ways. The user's query is not held up by it.
 */
public final class QueryRouter extends AbstractStreamOperator<QueryCopy>
        implements TwoInputStreamOperator<QueryRecord, RouteEvent, QueryCopy> {

    private static final long serialVersionUID = 1L;

    /** How long after the last mark the router begins to rely on the template. */
    static final long GRACE_MILLIS = 1_000;

    /** Name of the only template in broadcast state. */
    private static final Integer TEMPLATE = 0;

    private static final int EXACT = -1;

    /** 2^64 divided by the golden ratio: spreads consecutive numbers over all of them. */
    private static final long SPREAD = 0x9e3779b97f4a7c15L;

    private final String collection;
    private final int dimension;
    private final int partitions;
    private final double auditShare;

    private transient BroadcastState<Integer, byte[]> template;
    private transient BroadcastState<Integer, Long> marks;
    private transient NativeRouter router;
    private transient boolean relied;
    private transient ByteBuffer query;
    private transient ByteBuffer visits;
    private transient int[] chosen;
    private transient StreamRecord<QueryCopy> record;
    private transient Level epoch;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every query
     * @param partitions parallelism of search
     * @param auditShare share of the queries to audit, 0 to 1
     */
    public QueryRouter(String collection, int dimension, int partitions, double auditShare) {
        this.collection = collection;
        this.dimension = dimension;
        this.partitions = partitions;
        this.auditShare = auditShare;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        template =
                context.getOperatorStateStore()
                        .getBroadcastState(
                                new MapStateDescriptor<>(
                                        "template",
                                        IntSerializer.INSTANCE,
                                        BytePrimitiveArraySerializer.INSTANCE));
        marks =
                context.getOperatorStateStore()
                        .getBroadcastState(
                                new MapStateDescriptor<>(
                                        "settled",
                                        IntSerializer.INSTANCE,
                                        LongSerializer.INSTANCE));
    }

    @Override
    public void open() throws Exception {
        super.open();
        query = BufferLayout.allocate(BufferLayout.vectorBytes(dimension));
        visits = BufferLayout.allocate(partitions * BufferLayout.PARTITION_BYTES);
        chosen = new int[partitions];
        record = new StreamRecord<>(null);
        epoch = new Meters(getMetricGroup()).level(Names.EPOCH);
        byte[] known = template.get(TEMPLATE);
        router = known == null ? NativeRouter.unplaced(collection) : NativeRouter.fromBytes(known);
        rely();
    }

    @Override
    public void close() throws Exception {
        if (router != null) {
            router.close();
        }
        super.close();
    }

    @Override
    public void processElement1(StreamRecord<QueryRecord> element) {
        QueryRecord in = element.getValue();
        int count = relied && in.ticket().effort() != EXACT ? fanOut(in.vector()) : all();
        long now = getProcessingTimeService().getCurrentProcessingTime();
        for (int i = 0; i < count; i++) {
            send(in.ticket(), chosen[i], true, count, now, in.vector());
        }
        if (audited(in.ticket())) {
            audit(in, count, now);
        }
    }

    @Override
    public void processElement2(StreamRecord<RouteEvent> element) throws Exception {
        RouteEvent event = element.getValue();
        if (event.isTemplate()) {
            if (event.epoch() > router.epoch()) {
                template.put(TEMPLATE, event.template());
                router.close();
                router = NativeRouter.fromBytes(event.template());
                relied = false;
            }
        } else {
            marks.put(event.subtask(), event.epoch());
        }
        // A mark may overtake its template, which comes on another channel: both lead here.
        if (settled()) {
            getProcessingTimeService()
                    .registerTimer(
                            getProcessingTimeService().getCurrentProcessingTime() + GRACE_MILLIS,
                            now -> rely());
        }
    }

    /** True if every place subtask has settled at the router's template. */
    private boolean settled() throws Exception {
        int settled = 0;
        for (var mark : marks.immutableEntries()) {
            settled += mark.getValue() >= router.epoch() ? 1 : 0;
        }
        return !relied && router.placed() && settled >= partitions;
    }

    private void rely() throws Exception {
        relied = router.placed();
        // A template that needs no training has no epoch that anyone waits for.
        epoch.set(template.contains(TEMPLATE) ? router.epoch() : 0);
    }

    /** Fills {@code chosen} with the partitions that the template names. */
    private int fanOut(float[] vector) {
        BufferLayout.putVector(query, 0, vector);
        int count = router.fanOut(query, partitions, visits);
        for (int i = 0; i < count; i++) {
            chosen[i] = visits.getInt(i * BufferLayout.PARTITION_BYTES);
        }
        return count;
    }

    /** Fills {@code chosen} with every partition. */
    private int all() {
        for (int i = 0; i < partitions; i++) {
            chosen[i] = i;
        }
        return partitions;
    }

    private void audit(QueryRecord in, int visited, long now) {
        Ticket shadow = in.ticket().asAudit();
        int next = 0;
        for (int partition = 0; partition < partitions; partition++) {
            boolean inFanOut = next < visited && chosen[next] == partition;
            next += inFanOut ? 1 : 0;
            send(shadow, partition, inFanOut, partitions, now, in.vector());
        }
    }

    private void send(
            Ticket ticket,
            int partition,
            boolean inFanOut,
            int expected,
            long now,
            float[] vector) {
        int shard = ShardKeys.shardIn(partition, partitions);
        output.collect(
                record.replace(new QueryCopy(ticket, shard, inFanOut, expected, now, vector)));
    }

    /** A fixed function of the number, so that a replay audits the same queries. */
    private boolean audited(Ticket ticket) {
        double unit = (ticket.number() * SPREAD >>> 11) * 0x1.0p-53;
        return ticket.effort() != EXACT && unit < auditShare;
    }
}
