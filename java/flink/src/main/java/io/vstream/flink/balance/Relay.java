package io.vstream.flink.balance;

import java.util.concurrent.CompletableFuture;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinatorStore;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;

/**
 * Passes reports of the partitions to the control task, in the JobManager.
 *
 * <p>A coordinator belongs to one operator, so there are two: the one of search hears, the one of
 * the control task knows where to send. They meet in the job's coordinator store. Neither has
 * state: what is lost is repeated, and what is old is told by its run. Commands do not go this way:
 * place tasks and routers must obey them at one point of their streams, in one order with
 * checkpoints, which events to several operators cannot promise.
 */
final class Relay implements OperatorCoordinator {

    private static final String CONTROL = "vstream-control";
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

    @Override
    public void handleEventFromOperator(int subtask, int attempt, OperatorEvent event) {
        if (meeting.get(CONTROL) instanceof SubtaskGateway gateway) {
            gateway.sendEvent(event);
        }
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
