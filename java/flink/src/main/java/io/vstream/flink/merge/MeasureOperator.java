package io.vstream.flink.merge;

import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.metrics.EpochClock;
import io.vstream.flink.metrics.Latency;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.metrics.Text;
import io.vstream.flink.state.Totals;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Counts and times the answers on their way to the sink. Latency runs from the moment when the
 * query should have been sent to the moment when its merged answer is here.
 */
public final class MeasureOperator extends AbstractStreamOperator<Answer>
        implements OneInputStreamOperator<Answer, Answer> {

    private static final long serialVersionUID = 1L;

    private static final int ANSWERS = 0;
    private static final int MEASURED = 1;
    private static final int FAN_OUT = 2;
    private static final int PARTIAL = 3;
    private static final long MICRO = 1_000;
    private static final long SAMPLE_EVERY_NANOS = 2_000_000_000L;

    /**
     * Queries below this id are shown with their latest answer, so that a display can be chosen.
     */
    private static final int SHOWN_QUERIES = 64;

    /** Rows of a shown answer. */
    private static final int SHOWN_ROWS = 16;

    private transient Totals totals;
    private transient Latency latency;
    private transient Level lastAnswer;
    private transient Text sample;
    private transient long sampledNanos;
    private transient Answer[] shown;

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        Meters meters = new Meters(getMetricGroup());
        totals =
                new Totals(
                        meters,
                        Names.ANSWERS,
                        Names.ANSWERS_MEASURED,
                        Names.FAN_OUT,
                        Names.PARTIAL);
        totals.restore(context.getOperatorStateStore());
        latency = meters.latency(Names.LATENCY);
        lastAnswer = meters.level(Names.LAST_ANSWER);
        sample = meters.text(Names.SAMPLE);
        shown = new Answer[SHOWN_QUERIES];
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        totals.snapshot();
    }

    @Override
    public void processElement(StreamRecord<Answer> element) {
        Answer answer = element.getValue();
        Ticket ticket = answer.ticket();
        long now = EpochClock.nanos();
        totals.get(ANSWERS).inc();
        if (answer.partial()) {
            totals.get(PARTIAL).inc();
        }
        if (ticket.measured()) {
            totals.get(MEASURED).inc();
            totals.get(FAN_OUT).inc(answer.fanOut());
            latency.update((now - ticket.intendedNanos()) / MICRO);
        }
        sample(answer, now);
        lastAnswer.set(now);
        output.collect(element);
    }

    /** The answers that are shown; for tests. */
    String sample() {
        return sample.getValue();
    }

    /** Every two seconds: the latest answers to the shown queries, and last the answer of now. */
    private void sample(Answer answer, long now) {
        long queryId = answer.ticket().queryId();
        if (queryId >= 0 && queryId < SHOWN_QUERIES) {
            shown[(int) queryId] = Shortened.sample(answer, SHOWN_ROWS);
        }
        if (now - sampledNanos >= SAMPLE_EVERY_NANOS) {
            sampledNanos = now;
            StringBuilder lines = new StringBuilder();
            for (Answer one : shown) {
                if (one != null) {
                    lines.append(AnswerJson.line(one, "sample")).append('\n');
                }
            }
            Answer last = Shortened.sample(answer, SHOWN_ROWS);
            sample.set(lines.append(AnswerJson.line(last, "sample")).toString());
        }
    }
}
