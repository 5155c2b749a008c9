package io.vstream.flink.merge;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.job.Fault;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.search.Neighbors;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.flink.state.Totals;
import java.util.EnumSet;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Makes one answer of the partial answers to a query, keyed by the query's number.
 *
 * <ol>
 *   <li>A query that went to one partition is answered at once and leaves no state.
 *   <li>Otherwise the partial answers are gathered until all are in, or until the deadline after
 *       routing; then the answer says {@code partial}.
 *   <li>After a partial answer the number is remembered until the last straggler came or {@link
 *       #KEEP_MILLIS} have passed, so that no query is answered twice. What comes later still is
 *       told by the time of its routing and dropped.
 * </ol>
 *
 * <p>There are no timers per query: one tick per {@link #TICK_MILLIS} looks at the front of a queue
 * of deadlines, and of a second one of numbers to forget. The queues are rebuilt from the state
 * after a restore. Aligned barriers drain the queries that were routed before them, so a checkpoint
 * holds gatherings only where a partition's answer is missing.
 */
public final class Merge extends AbstractStreamOperator<Answer>
        implements OneInputStreamOperator<PartialAnswer, Answer> {

    private static final long serialVersionUID = 1L;

    /** How often deadlines are looked at. */
    static final long TICK_MILLIS = 100;

    /** How long after its deadline a query's number is remembered. */
    static final long KEEP_MILLIS = 60_000;

    /** Equal to the audited k-th distance within rounding: as good an answer. */
    private static final float TIE = 1e-5f;

    private static final int AUDITS = 0;
    private static final int RECALL_MICROS = 1;
    private static final int EXPIRED = 2;
    private static final double MICROS = 1e6;
    private static final String STATE = "gathering";

    private final long deadlineMillis;
    private final EnumSet<Fault> faults;

    private transient ValueState<Gathering> state;
    private transient Deadlines deadlines;
    private transient Deadlines memories;
    private transient Ranking ranking;
    private transient Ranking truth;
    private transient StreamRecord<Answer> record;
    private transient Totals totals;

    /**
     * @param deadlineMillis how long after routing a query waits for partial answers
     * @param faults defects for tests
     */
    public Merge(long deadlineMillis, EnumSet<Fault> faults) {
        this.deadlineMillis = deadlineMillis;
        this.faults = faults;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        state =
                context.getKeyedStateStore()
                        .getState(
                                new ValueStateDescriptor<>(
                                        STATE, new Gathering.GatheringSerializer()));
        totals =
                new Totals(
                        new Meters(getMetricGroup()),
                        Names.AUDITS,
                        Names.RECALL_MICROS,
                        Names.EXPIRED);
        totals.restore(context.getOperatorStateStore());
    }

    @Override
    public void open() throws Exception {
        super.open();
        deadlines = new Deadlines();
        memories = new Deadlines();
        ranking = new Ranking();
        truth = new Ranking();
        record = new StreamRecord<>(null);
        // All wait a whole deadline from now on: the outage was not theirs.
        try (Stream<Long> numbers =
                this.<Long>getKeyedStateBackend().getKeys(STATE, VoidNamespace.INSTANCE)) {
            long now = now();
            numbers.toList().forEach(number -> deadlines.add(number, now + deadlineMillis));
        }
        tickLater();
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        totals.snapshot();
    }

    @Override
    public void processElement(StreamRecord<PartialAnswer> element) throws Exception {
        PartialAnswer part = element.getValue();
        if (part.expected() == 1 && !part.ticket().audit()) {
            answer(part.ticket(), List.of(part.rows()), 1, part.shed(), part.frontier());
            return;
        }
        Gathering gathering = state.value();
        if (gathering == null) {
            if (part.routedMillis() + deadlineMillis + KEEP_MILLIS <= now()) {
                totals.get(EXPIRED).inc();
                return;
            }
            gathering = new Gathering(part.ticket(), part.expected(), part.routedMillis());
            deadlines.add(part.ticket().number(), part.routedMillis() + deadlineMillis);
        }
        take(part, gathering);
    }

    /** Audits, their recall in millionths, and expired partial answers; for tests. */
    long[] totals() {
        return new long[] {
            totals.get(AUDITS).getCount(),
            totals.get(RECALL_MICROS).getCount(),
            totals.get(EXPIRED).getCount()
        };
    }

    private void take(PartialAnswer part, Gathering gathering) throws Exception {
        if (gathering.see(part.partition()) && !gathering.answered()) {
            boolean lost = faults.contains(Fault.MERGE_LOSES_PARTIAL) && part.partition() % 2 == 1;
            if (!lost) {
                gathering.rows().add(part.rows());
            }
            gathering.behind(part.frontier());
            gathering.lacks(part.shed());
            if (part.ticket().audit()) {
                gathering.exact().add(part.exact());
            }
        }
        if (!gathering.complete()) {
            state.update(gathering);
            return;
        }
        if (!gathering.answered()) {
            finish(gathering, false);
        }
        state.clear();
    }

    private void finish(Gathering gathering, boolean late) {
        boolean partial = late || gathering.lacking();
        if (!gathering.ticket().audit()) {
            answer(
                    gathering.ticket(),
                    gathering.rows(),
                    gathering.expected(),
                    partial,
                    gathering.frontier());
        } else if (!partial && gathering.ticket().measured()) {
            audit(gathering);
        }
    }

    private void answer(
            Ticket ticket, List<Neighbors> rows, int fanOut, boolean partial, Frontier frontier) {
        int size = rank(ranking, rows, ticket.k());
        long[] ids = new long[size];
        float[] distances = new float[size];
        for (int i = 0; i < size; i++) {
            ids[i] = ranking.id(i);
            distances[i] = ranking.distance(i);
        }
        output.collect(
                record.replace(new Answer(ticket, ids, distances, fanOut, partial, frontier)));
    }

    /** Recall: the share of the exact nearest that the usual answer found; a tie counts. */
    private void audit(Gathering gathering) {
        int k = gathering.ticket().k();
        int size = rank(truth, gathering.exact(), k);
        int found = 0;
        if (size > 0) {
            float farthest = truth.distance(size - 1);
            float limit = farthest + TIE * Math.max(1, Math.abs(farthest));
            int given = rank(ranking, gathering.rows(), k);
            for (int i = 0; i < Math.min(given, size); i++) {
                found += ranking.distance(i) <= limit ? 1 : 0;
            }
        }
        totals.get(AUDITS).inc();
        totals.get(RECALL_MICROS)
                .inc(size == 0 ? (long) MICROS : Math.round(MICROS * found / size));
    }

    private static int rank(Ranking ranking, List<Neighbors> rows, int k) {
        ranking.clear();
        for (Neighbors part : rows) {
            ranking.add(part);
        }
        return ranking.rank(k);
    }

    private void tickLater() {
        getProcessingTimeService().registerTimer(now() + TICK_MILLIS, time -> tick());
    }

    private void tick() throws Exception {
        long now = now();
        while (deadlines.due(now)) {
            long number = deadlines.take();
            setCurrentKey(number);
            Gathering gathering = state.value();
            // Most queries were answered long ago and have no state.
            if (gathering != null && !gathering.answered()) {
                finish(gathering, true);
                gathering.markAnswered();
                state.update(gathering);
            }
            if (gathering != null) {
                memories.add(number, now + KEEP_MILLIS);
            }
        }
        while (memories.due(now)) {
            setCurrentKey(memories.take());
            state.clear();
        }
        tickLater();
    }

    private long now() {
        return getProcessingTimeService().getCurrentProcessingTime();
    }
}
