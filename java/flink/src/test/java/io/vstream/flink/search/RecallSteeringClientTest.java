package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.vstream.flink.control.RecallSteering;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.metrics.Ratio;
import io.vstream.nativecore.NativeEngine;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.streaming.runtime.tasks.StreamTaskActionExecutor;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxExecutorImpl;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl;
import org.apache.flink.util.SerializedValue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A partition that asks what whole answers need, of a JobManager that loses questions. */
class RecallSteeringClientTest {

    private static final String COLLECTION =
            """
            {"dimension": 64, "metric": "l2", "recall-target": 0.9,
             "encoder": {"kind": "cells", "recall-target": 0.95}}
            """;

    private final TaskMailboxImpl mail = new TaskMailboxImpl();
    private final MailboxExecutorImpl mailbox =
            new MailboxExecutorImpl(
                    mail,
                    0,
                    StreamTaskActionExecutor.IMMEDIATE,
                    new MailboxProcessor(controller -> {}));
    private final NativeEngine engine = NativeEngine.create(COLLECTION);
    private final Ratio aim = new Meters(new UnregisteredMetricsGroup()).ratio(Names.RECALL_AIM);
    private final List<RecallSteering.Request> asked = new ArrayList<>();
    private final Queue<CompletableFuture<CoordinationResponse>> answers = new ArrayDeque<>();
    private final RecallSteeringClient steering =
            new RecallSteeringClient(this::answer, mailbox, engine::aim, 1, 2, aim);

    @AfterEach
    void close() {
        engine.close();
    }

    @Test
    void theEngineAimsAtWhatAuditsSay() throws Exception {
        answers.add(
                CompletableFuture.completedFuture(
                        new RecallSteering.Totals(0, 0, 0, 0, 0).answer()));
        steering.request(0.93);
        read();
        assertThat(asked).containsExactly(new RecallSteering.Request(1, 2, 1 - 0.93, Double.NaN));
        // A tenth may be lost, of which routing is assumed to lose a half; of what the partition
        // misses a half is assumed to matter.
        assertThat(aim.getValue()).isCloseTo(0.9, within(1e-6));
        // Routing loses 0.03. Of what partitions miss, 0.4 parts matter; they miss 0.8 of what they
        // may.
        answers.add(
                CompletableFuture.completedFuture(
                        new RecallSteering.Totals(1e6, 3e4, 2e4, 5e4, 6.25e4).answer()));
        steering.request(0.95);
        read();
        assertThat(aim.getValue()).isCloseTo(1 - 0.07 / 0.4 / 0.8, within(1e-3));
    }

    @Test
    void aLostQuestionIsAskedAgainAndOneIsUnderWayAtMost() throws Exception {
        CompletableFuture<CoordinationResponse> late = new CompletableFuture<>();
        answers.add(late);
        steering.request(Double.NaN);
        steering.request(Double.NaN);
        assertThat(asked).hasSize(1);
        late.completeExceptionally(new TimeoutException("too busy"));
        read();
        assertThat(aim.getValue()).isNaN();
        answers.add(
                CompletableFuture.completedFuture(
                        new RecallSteering.Totals(0, 0, 0, 0, 0).answer()));
        steering.request(Double.NaN);
        read();
        assertThat(asked).hasSize(2);
        assertThat(aim.getValue()).isFinite();
    }

    @Test
    void anAnswerAfterTheEndIsLeft() throws Exception {
        CompletableFuture<CoordinationResponse> late = new CompletableFuture<>();
        answers.add(late);
        steering.request(0.9);
        steering.close();
        engine.close();
        late.complete(new RecallSteering.Totals(0, 0, 0, 0, 0).answer());
        read();
        assertThat(aim.getValue()).isNaN();
        mail.quiesce();
        mail.close();
    }

    private CompletableFuture<CoordinationResponse> answer(
            SerializedValue<CoordinationRequest> question) {
        try {
            asked.add(
                    (RecallSteering.Request)
                            question.deserializeValue(getClass().getClassLoader()));
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        return answers.remove();
    }

    private void read() {
        while (mailbox.tryYield()) {
            // Each mail is done here.
        }
    }
}
