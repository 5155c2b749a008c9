package io.vstream.flink.balance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.typeutils.base.array.LongPrimitiveArraySerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationRequestHandler;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.CoordinatorStore;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;
import org.apache.flink.streaming.api.operators.collect.CollectCoordinationResponse;

/**
 * Passes reports of the partitions to the control task, in the JobManager.
 *
 * <p>A coordinator belongs to one operator, so there are two: the one of search hears, the one of
 * the control task knows where to send. They meet in the job's coordinator store. Neither has
 * state: what is lost is repeated, and what is old is told by its run. Commands do not go this way:
 * place tasks and routers must obey them at one point of their streams, in one order with
 * checkpoints, which events to several operators cannot promise.
 *
 * <p>Between the beginning of a checkpoint and its barrier at the control task Flink holds reports
 * back. When the stream has ended, that barrier may not be reached before the reports are: so the
 * control task can also ask how far the partitions are, which nothing holds back. No partition is
 * past a checkpoint that the control task, which stands before all of them, has not taken.
 */
final class Relay implements OperatorCoordinator, CoordinationRequestHandler {

    private static final String CONTROL = "vstream-control";
    private static final String REACHED = "vstream-reached";
    private static final byte[] NO_STATE = new byte[0];

    private final CoordinatorStore meeting;
    private final boolean control;

    private Relay(CoordinatorStore meeting, boolean control) {
        this.meeting = meeting;
        this.control = control;
    }

    /**
     * Makes a relay where the JobManager wants one.
     *
     * @param operator that it belongs to
     * @param control true at the control task, false at search
     */
    record Maker(OperatorID operator, boolean control) implements Provider {
        private static final long serialVersionUID = 1L;

        @Override
        public OperatorID getOperatorId() {
            return operator;
        }

        @Override
        public OperatorCoordinator create(Context context) {
            return new Relay(context.getCoordinatorStore(), control);
        }
    }

    /** Asks how far the partitions are; see {@link #reached}. */
    record Question() implements CoordinationRequest {
        private static final long serialVersionUID = 1L;
    }

    /** What an answer to {@link Question} says: the newest report of each partition, no loads. */
    static List<Report> reached(CoordinationResponse answer) throws IOException {
        return ((CollectCoordinationResponse) answer)
                .<long[]>getResults(LongPrimitiveArraySerializer.INSTANCE).stream()
                        .map(one -> Report.of((int) one[0], one[1], one[2]))
                        .toList();
    }

    /** A class of Flink's carries the answer: ours are unknown where it is received. */
    @Override
    public CompletableFuture<CoordinationResponse> handleCoordinationRequest(
            CoordinationRequest question) {
        List<byte[]> answer = new ArrayList<>();
        if (meeting.get(REACHED) instanceof Map<?, ?> reached) {
            for (Object one : reached.values()) {
                DataOutputSerializer bytes = new DataOutputSerializer(4 * Long.BYTES);
                try {
                    LongPrimitiveArraySerializer.INSTANCE.serialize((long[]) one, bytes);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
                answer.add(bytes.getCopyOfBuffer());
            }
        }
        return CompletableFuture.completedFuture(new CollectCoordinationResponse("", 0, answer));
    }

    @Override
    public void handleEventFromOperator(int subtask, int attempt, OperatorEvent event) {
        if (event instanceof Report report) {
            long[] one = {report.partition(), report.run(), report.position()};
            meeting.compute(REACHED, (key, old) -> with((Map<?, ?>) old, one));
        }
        if (meeting.get(CONTROL) instanceof SubtaskGateway gateway) {
            gateway.sendEvent(event);
        }
    }

    private static Map<Object, Object> with(Map<?, ?> old, long[] one) {
        Map<Object, Object> all = old == null ? new HashMap<>() : new HashMap<>(old);
        all.put(one[0], one);
        return all;
    }

    @Override
    public void executionAttemptReady(int subtask, int attempt, SubtaskGateway gateway) {
        if (control) {
            meeting.compute(CONTROL, (key, old) -> gateway);
        }
    }

    @Override
    public void executionAttemptFailed(int subtask, int attempt, Throwable reason) {
        leave();
    }

    @Override
    public void subtaskReset(int subtask, long checkpoint) {
        leave();
    }

    private void leave() {
        if (control) {
            meeting.compute(CONTROL, (key, old) -> null);
        }
    }

    @Override
    public void checkpointCoordinator(long checkpoint, CompletableFuture<byte[]> state) {
        state.complete(NO_STATE);
    }

    @Override
    public void start() {
        // Nothing to start.
    }

    @Override
    public void close() {
        leave();
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
        // No state, nothing to clean up.
    }

    @Override
    public void resetToCheckpoint(long checkpoint, byte[] state) {
        // No state to go back to.
    }
}
