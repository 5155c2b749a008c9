package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.DecodeFunction;
import io.vstream.flink.ingest.DecodeOperator;
import io.vstream.flink.ingest.Element;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.ingest.VectorRules;
import io.vstream.flink.route.ShardKeys;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.MockOperatorCoordinatorContext;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The sample of several subtasks, of which the job restores a part or all. */
class SampleRestoreTest {

    private static final int SAMPLE = 2_000;
    private static final int PART_MAX = 125;
    private static final int DIMENSION = 2;

    private final OperatorID operator = SampleGrants.operatorOf("balance");
    private final ControlCoordinator relay =
            (ControlCoordinator)
                    new ControlCoordinator.CoordinatorProvider(operator, "", true, null)
                            .create(new MockOperatorCoordinatorContext(operator, 1));
    private final List<OneInputStreamOperatorTestHarness<Incoming, VectorRecord>> subtasks =
            new ArrayList<>();
    private int questions;

    @AfterEach
    void close() throws Exception {
        for (var subtask : subtasks) {
            subtask.close();
        }
    }

    /**
     * Each of several subtasks has sent less than the sample, so after every restart they once sent
     * it again, to a trainer that had no use for it.
     */
    @Test
    void aSampleThatIsCompleteIsNotSentAgain() throws Exception {
        open(2, null);
        int sent = feed(2_500);
        assertThat(sent).isBetween(SAMPLE, SAMPLE + 2 * PART_MAX);
        for (int parallelism : new int[] {3, 1, 2}) {
            restart(parallelism);
            assertThat(feed(2_500)).isZero();
        }
        assertThat(questions).isZero();
    }

    @Test
    void whatIsMissingIsSentAfterwards() throws Exception {
        open(2, null);
        int sent = feed(400);
        assertThat(sent).isEqualTo(800);
        restart(3);
        sent += feed(100);
        restart(2);
        assertThat(sent).isEqualTo(1_100);
        sent += feed(2_500);
        assertThat(sent).isBetween(SAMPLE, SAMPLE + 2 * PART_MAX);
    }

    private void open(int parallelism, OperatorSubtaskState state) throws Exception {
        int before = subtasks.size();
        subtasks.clear();
        questions = 0;
        for (int subtask = 0; subtask < parallelism; subtask++) {
            VectorRules rules = new VectorRules(DIMENSION, false, Element.F32);
            var made =
                    new OneInputStreamOperatorTestHarness<Incoming, VectorRecord>(
                            new DecodeOperator(new DecodeFunction(rules, SAMPLE, 1), "balance"),
                            Incoming.TYPE.createSerializer(null),
                            new CoordinatedEnvironment(this::answer, parallelism, subtask));
            made.setup(VectorRecord.TYPE.createSerializer(null));
            if (state != null) {
                made.initializeState(
                        AbstractStreamOperatorTestHarness.repartitionOperatorState(
                                state, ShardKeys.USUAL, before, parallelism, subtask));
            }
            made.open();
            subtasks.add(made);
        }
    }

    /** Everything ends, and goes on from a checkpoint of now at another parallelism. */
    private void restart(int parallelism) throws Exception {
        OperatorSubtaskState[] parts = new OperatorSubtaskState[subtasks.size()];
        for (int subtask = 0; subtask < parts.length; subtask++) {
            parts[subtask] = subtasks.get(subtask).snapshot(1, 1);
        }
        close();
        relay.executionAttemptFailed(0, 0, null);
        open(parallelism, AbstractStreamOperatorTestHarness.repackageState(parts));
    }

    /** Gives each subtask so many rows; returns how many of them went to the trainer. */
    private int feed(int rows) throws Exception {
        int sent = 0;
        for (var subtask : subtasks) {
            var sample = subtask.getSideOutput(DecodeFunction.SAMPLE);
            sent -= sample == null ? 0 : sample.size();
        }
        for (int row = 0; row < rows; row++) {
            for (var subtask : subtasks) {
                Incoming in = new Incoming();
                in.kind = Incoming.Kind.UPSERT;
                in.id = row;
                in.vector = new float[DIMENSION];
                subtask.processElement(new StreamRecord<>(in));
            }
        }
        for (var subtask : subtasks) {
            var sample = subtask.getSideOutput(DecodeFunction.SAMPLE);
            sent += sample == null ? 0 : sample.size();
        }
        return sent;
    }

    private CompletableFuture<CoordinationResponse> answer(CoordinationRequest question) {
        questions++;
        return relay.handleCoordinationRequest(question);
    }
}
