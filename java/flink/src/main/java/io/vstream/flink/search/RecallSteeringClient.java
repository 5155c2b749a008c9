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
 * Steers the recall of a partition's automatic searches by the audits of whole answers, which it
 * requests from the JobManager now and then. It repeats a request that was lost.
 */
final class RecallSteeringClient {

    private static final Logger LOG = LoggerFactory.getLogger(RecallSteeringClient.class);

    private final RequestSender jobManager;
    private final MailboxExecutor mailbox;
    private final Engine engine;
    private final int partition;
    private final int partitions;
    private final Ratio aim;
    private boolean awaiting;
    private boolean closed;

    /**
     * @param mailbox of the operator
     * @param engine is steered
     * @param partition of the engine
     * @param partitions in all
     * @param aim shows the recall that the engine is to reach
     */
    RecallSteeringClient(
            RequestSender jobManager,
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

    /** Sends a request to the partition's coordinator. */
    interface RequestSender {

        CompletableFuture<CoordinationResponse> send(SerializedValue<CoordinationRequest> request);

        /** The sender of a task. */
        static RequestSender of(TaskOperatorEventGateway gateway, OperatorID operator) {
            return request -> gateway.sendRequestToCoordinator(operator, request);
        }
    }

    /** The engine that is steered; see {@link io.vstream.nativecore.NativeEngine#aim}. */
    interface Engine {

        double aim(double audits, double lost, double missed, double ownMissed, double ownAllowed);
    }

    /**
     * Asks, in the task's thread, unless an answer is still awaited.
     *
     * @param recall share of its own neighbours that the partition finds, as its engine measured;
     *     not a number if it has not
     */
    void request(double recall) {
        if (awaiting || closed) {
            return;
        }
        awaiting = true;
        try {
            RecallSteering.Request question =
                    new RecallSteering.Request(
                            partition, partitions, 1 - recall, 1 - aim.getValue());
            jobManager.send(new SerializedValue<>(question)).whenComplete(this::mail);
        } catch (IOException e) {
            throw new UncheckedIOException("A question cannot be written.", e);
        }
    }

    private void mail(CoordinationResponse answer, Throwable failure) {
        try {
            mailbox.execute(() -> apply(answer, failure), "steering");
        } catch (RejectedExecutionException e) {
            // The task has ended: nobody waits for this.
        }
    }

    private void apply(CoordinationResponse answer, Throwable failure) throws IOException {
        awaiting = false;
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
