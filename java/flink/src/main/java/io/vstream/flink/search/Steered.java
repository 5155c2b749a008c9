package io.vstream.flink.search;

import io.vstream.flink.control.RecallSteering;
import io.vstream.flink.metrics.Ratio;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.util.SerializedValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has a partition's automatic searches reach what the audits of whole answers say that they must:
 * asks the JobManager for these now and then. A question that is lost is asked again.
 */
final class Steered {

    private static final Logger LOG = LoggerFactory.getLogger(Steered.class);

    private final Asking jobManager;
    private final MailboxExecutor mailbox;
    private final Engine engine;
    private final int partition;
    private final int partitions;
    private final Ratio aim;
    private boolean asking;
    private boolean closed;

    /**
     * @param mailbox of the operator
     * @param engine is steered
     * @param partition of the engine
     * @param partitions in all
     * @param aim shows the recall that the engine is to reach
     */
    Steered(
            Asking jobManager,
            MailboxExecutor mailbox,
            Engine engine,
            int partition,
            int partitions,
            Ratio aim) {
        this.jobManager = jobManager;
        this.mailbox = mailbox;
        this.engine = engine;
        this.partition = partition;
        this.partitions = partitions;
        this.aim = aim;
    }

    /** Sends a question to the partition's coordinator. */
    interface Asking {

        CompletableFuture<CoordinationResponse> ask(SerializedValue<CoordinationRequest> question);

        /** The way of a task. */
        static Asking of(TaskOperatorEventGateway gateway, OperatorID operator) {
            return question -> gateway.sendRequestToCoordinator(operator, question);
        }
    }

    /** What is steered; see {@link io.vstream.nativecore.NativeEngine#aim}. */
    interface Engine {

        double aim(double audits, double lost, double missed, double ownMissed, double ownAllowed);
    }

    /**
     * Asks, in the task's thread, unless an answer is still awaited.
     *
     * @param recall share of its own neighbours that the partition finds, as its engine measured;
     *     not a number if it has not
     */
    void ask(double recall) {
        if (asking || closed) {
            return;
        }
        asking = true;
        try {
            RecallSteering.Request question =
                    new RecallSteering.Request(
                            partition, partitions, 1 - recall, 1 - aim.getValue());
            jobManager.ask(new SerializedValue<>(question)).whenComplete(this::mail);
        } catch (IOException e) {
            throw new UncheckedIOException("A question cannot be written.", e);
        }
    }

    private void mail(CoordinationResponse answer, Throwable failure) {
        try {
            mailbox.execute(() -> obey(answer, failure), "steering");
        } catch (RejectedExecutionException e) {
            // The task has ended: nobody waits for this.
        }
    }

    private void obey(CoordinationResponse answer, Throwable failure) throws IOException {
        asking = false;
        if (closed) {
            return;
        }
        if (failure != null) {
            LOG.debug("The JobManager does not say what audits have found", failure);
            return;
        }
        RecallSteering.Totals sums = RecallSteering.Totals.of(answer);
        aim.set(
                engine.aim(
                        sums.audits(),
                        sums.lost(),
                        sums.missed(),
                        sums.ownMissed(),
                        sums.ownAllowed()));
    }

    /** Leaves the engine alone from now on. */
    void close() {
        closed = true;
    }
}
