package io.vstream.flink.merge;

import io.vstream.flink.control.MergedAudits;
import io.vstream.flink.control.SampleGrants;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.row.Schema;
import io.vstream.flink.search.Neighbors;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.flink.state.Totals;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.SerializedValue;

/**
 * Makes one answer of the partial answers to a query, keyed by the query's number.
 *
 * <ol>
 *   <li>A query that went to one partition is answered at once and leaves no state.
 *   <li>Otherwise the partial answers are gathered until all are in, or until the deadline, which
 *       runs from the arrival of the first one here; then the answer says {@code partial}. No clock
 *       of another machine is asked, and no query goes without an answer.
 *   <li>After a partial answer the number is remembered until the last straggler came, so that no
 *       query is answered twice. It comes: no channel loses a record, and a restore repeats it.
 * </ol>
 *
 * <p>There are no timers per query: one tick per {@link #TICK_MILLIS} looks at the front of a queue
 * of deadlines. Deadlines are counted in ticks, so a clock that is set back holds up nobody.
 *
 * <p>Gatherings are on the heap, and in keyed state only in checkpoints. These hold next to none:
 * aligned barriers drain the queries that were routed before them, so a gathering is there only
 * where a partition's answer is missing. As such an answer comes no more, the number is forgotten
 * {@link #KEEP_MILLIS} after its deadline.
 */
public final class MergeOperator extends AbstractStreamOperator<Answer>
        implements OneInputStreamOperator<PartialAnswer, Answer> {

    private static final long serialVersionUID = 1L;

    /** How often deadlines are looked at. */
    static final long TICK_MILLIS = 100;

    /** How long after its deadline a restored query's number is remembered. */
    static final long KEEP_MILLIS = 60_000;

    /** Ticks between two reports of audits to the partitions. */
    private static final long TICKS_PER_SEND = 10;

    private static final int AUDITS = 0;
    private static final int RECALL_MICROS = 1;
    private static final int EXPIRED = 2;
    private static final double MICROS = 1e6;
    private static final String STATE = "gathering";

    private final long deadlineMillis;
    private final Schema schema;
    private final String searchUid;
    private final EnumSet<Fault> faults;

    private transient ValueState<Gathering> state;

    /** Queries that wait for partitions, by number. */
    private transient Map<Long, Gathering> gatherings;

    /** Numbers whose gathering is in the keyed state. */
    private transient List<Long> stored;

    private transient long ticks;
    private transient Deadlines deadlines;
    private transient Deadlines memories;
    private transient AnswerMaker answers;
    private transient Ranking ranking;
    private transient Ranking truth;
    private transient StreamRecord<Answer> record;
    private transient Totals totals;

    /** Audits that were not sent to the partitions yet. */
    private transient MergedAudits unsent;

    /**
     * @param deadlineMillis how long a query waits for partial answers after the first one
     * @param schema of the collection, to name what rows carry
     * @param searchUid uid of the partitions, which are steered by what audits find
     * @param faults defects for tests
     */
    public MergeOperator(
            long deadlineMillis, Schema schema, String searchUid, EnumSet<Fault> faults) {
        this.deadlineMillis = deadlineMillis;
        this.schema = schema;
        this.searchUid = searchUid;
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
        answers = new AnswerMaker(schema);
        ranking = new Ranking();
        truth = new Ranking();
        record = new StreamRecord<>(null);
        unsent = MergedAudits.NONE;
        // All wait a whole deadline from now on: the outage was not theirs.
        try (Stream<Long> numbers =
                this.<Long>getKeyedStateBackend().getKeys(STATE, VoidNamespace.INSTANCE)) {
            stored = new ArrayList<>(numbers.toList());
        }
        gatherings = new HashMap<>();
        for (long number : stored) {
            setCurrentKey(number);
            gatherings.put(number, state.value());
            deadlines.add(number, after(deadlineMillis));
            memories.add(number, after(deadlineMillis + KEEP_MILLIS));
        }
        tickLater();
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        totals.snapshot();
        for (long number : stored) {
            setCurrentKey(number);
            state.clear();
        }
        stored = new ArrayList<>(gatherings.keySet());
        for (long number : stored) {
            setCurrentKey(number);
            state.update(gatherings.get(number));
        }
    }

    @Override
    public void processElement(StreamRecord<PartialAnswer> element) throws Exception {
        PartialAnswer part = element.getValue();
        if (part.expected() == 1 && !part.ticket().audit()) {
            answer(part.ticket(), List.of(part.rows()), 1, part.incomplete(), part.frontier());
            return;
        }
        long number = part.ticket().number();
        Gathering gathering = gatherings.get(number);
        if (gathering == null) {
            gathering = new Gathering(part.ticket(), part.expected());
            gatherings.put(number, gathering);
            deadlines.add(number, after(deadlineMillis));
        }
        take(part, gathering);
    }

    /** Audits, their recall in millionths, and stragglers; for tests. */
    long[] totals() {
        return new long[] {
            totals.get(AUDITS).getCount(),
            totals.get(RECALL_MICROS).getCount(),
            totals.get(EXPIRED).getCount()
        };
    }

    private void take(PartialAnswer part, Gathering gathering) {
        if (gathering.answered()) {
            totals.get(EXPIRED).inc();
        }
        if (gathering.see(part.partition()) && !gathering.answered()) {
            boolean lost = faults.contains(Fault.MERGE_LOSES_PARTIAL) && part.partition() % 2 == 1;
            // An audit compares the two lists partition by partition.
            gathering.rows().add(lost ? Neighbors.NONE : part.rows());
            gathering.include(part.frontier());
            gathering.lacks(part.incomplete());
            if (part.ticket().audit()) {
                gathering.exact().add(part.exact());
            }
        }
        if (gathering.complete()) {
            if (!gathering.answered()) {
                finish(gathering, false);
            }
            gatherings.remove(part.ticket().number());
        }
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
        } else if (!partial) {
            audit(gathering);
        }
    }

    private void answer(
            Ticket ticket, List<Neighbors> rows, int fanOut, boolean partial, Frontier frontier) {
        output.collect(record.replace(answers.make(ticket, rows, fanOut, partial, frontier)));
    }

    private void audit(Gathering gathering) {
        Ticket ticket = gathering.ticket();
        Audit audit = Audit.of(gathering.rows(), gathering.exact(), ticket.k(), ranking, truth);
        if (ticket.measured()) {
            totals.get(AUDITS).inc();
            totals.get(RECALL_MICROS).inc(Math.round(MICROS * audit.found()));
        }
        // An effort that the caller chose says nothing of what partitions must reach by themselves.
        if (ticket.effort() == 0) {
            unsent = unsent.and(audit.lost(), audit.missed());
        }
    }

    /** Sends the results of audits to the partitions' coordinator; does not repeat a lost one. */
    private void sendAudits() {
        if (unsent.audits() == 0) {
            return;
        }
        try {
            getContainingTask()
                    .getEnvironment()
                    .getOperatorCoordinatorEventGateway()
                    .sendRequestToCoordinator(
                            SampleGrants.operatorOf(searchUid), new SerializedValue<>(unsent));
        } catch (IOException e) {
            throw new UncheckedIOException("What audits have found cannot be written.", e);
        }
        unsent = MergedAudits.NONE;
    }

    private void tickLater() {
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now + TICK_MILLIS, time -> tick());
    }

    /** The first tick after so many milliseconds, when part of the present one may be over. */
    private long after(long millis) {
        return ticks + 1 + (millis + TICK_MILLIS - 1) / TICK_MILLIS;
    }

    private void tick() {
        ticks++;
        while (deadlines.due(ticks)) {
            Gathering gathering = gatherings.get(deadlines.take());
            // Most queries were answered long ago and are not there any more.
            if (gathering != null && !gathering.answered()) {
                finish(gathering, true);
                gathering.markAnswered();
            }
        }
        while (memories.due(ticks)) {
            gatherings.remove(memories.take());
        }
        if (ticks % TICKS_PER_SEND == 0) {
            sendAudits();
        }
        tickLater();
    }
}
