package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.Metric;
import io.vstream.flink.VectorChange;
import io.vstream.flink.VectorQuery;
import io.vstream.flink.VectorSearch;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import org.apache.flink.runtime.OperatorIDPair;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.MockOperatorCoordinatorContext;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.SerializedValue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Subtasks of decode that share one sample, of which some see next to nothing. */
class SampleGrantsTest {

    private final OperatorID operator = SampleGrants.operatorOf("balance");
    private final ControlCoordinator relay =
            (ControlCoordinator)
                    new ControlCoordinator.CoordinatorProvider(operator, "", true, null)
                            .create(new MockOperatorCoordinatorContext(operator, 1));
    private int lost;

    @ParameterizedTest
    @CsvSource({"1, 20000, 0", "4, 20000, 0", "4, 20000, 3", "100, 20000, 99", "128, 700, 1"})
    void togetherTheySendTheSampleAndLittleMore(int subtasks, int sample, int resting)
            throws Exception {
        List<SampleGrants> all = new ArrayList<>();
        for (int i = 0; i < subtasks; i++) {
            all.add(new SampleGrants(gateway(), "balance", sample, subtasks));
        }
        long granted = 0;
        long sent = 0;
        for (SampleGrants one : all.subList(0, resting)) {
            // They get a part each and then no record any more.
            granted += one.more();
        }
        boolean more = true;
        while (more) {
            more = false;
            for (SampleGrants one : all.subList(resting, subtasks)) {
                int part = one.more();
                sent += part;
                more |= part > 0;
            }
        }
        assertThat(sent).isGreaterThanOrEqualTo(sample);
        long part = Math.max(64, sample / (8L * subtasks));
        assertThat(granted + sent)
                .isLessThanOrEqualTo(sample + (subtasks == 1 ? 0 : part * subtasks));
    }

    @Test
    void aLostAnswerHoldsNobodyUp() throws Exception {
        lost = 3;
        SampleGrants grants = new SampleGrants(gateway(), "balance", 8_000, 4);
        int sent = 0;
        for (int part = grants.more(); part > 0; part = grants.more()) {
            sent += part;
        }
        assertThat(sent).isBetween(8_000, 10_000);
    }

    @Test
    void theNextAttemptHasAWholeSampleAgain() throws Exception {
        SampleGrants before = new SampleGrants(gateway(), "balance", 8_000, 2);
        while (before.more() > 0) {
            // Takes all there is.
        }
        relay.executionAttemptFailed(0, 0, null);
        assertThat(new SampleGrants(gateway(), "balance", 8_000, 2).more()).isPositive();
    }

    @Test
    void theControlTaskIsFoundByItsUid() {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(VectorSearch.flinkSettings());
        env.setParallelism(2);
        VectorSearch.collection(64, Metric.L2)
                .name("texts")
                .vectors(env.fromData(VectorChange.delete(1)))
                .queries(env.fromData(VectorQuery.of(1, new float[64])))
                .build()
                .results()
                .sinkTo(new DiscardingSink<>());
        List<OperatorID> found = new ArrayList<>();
        for (JobVertex vertex : env.getStreamGraph().getJobGraph().getVertices()) {
            if (vertex.getName().equals("texts-balance")) {
                vertex.getOperatorIDs().stream()
                        .map(OperatorIDPair::getGeneratedOperatorID)
                        .forEach(found::add);
            }
        }
        assertThat(found).containsExactly(SampleGrants.operatorOf("texts-balance"));
    }

    private TaskOperatorEventGateway gateway() {
        return new TaskOperatorEventGateway() {
            @Override
            public void sendOperatorEventToCoordinator(
                    OperatorID to, SerializedValue<OperatorEvent> event) {
                throw new IllegalStateException("An event that is lost fails the task.");
            }

            @Override
            public CompletableFuture<CoordinationResponse> sendRequestToCoordinator(
                    OperatorID to, SerializedValue<CoordinationRequest> request) {
                assertThat(to).isEqualTo(operator);
                if (lost > 0) {
                    lost--;
                    return CompletableFuture.failedFuture(new TimeoutException("too busy"));
                }
                try {
                    return relay.handleCoordinationRequest(
                            request.deserializeValue(getClass().getClassLoader()));
                } catch (Exception e) {
                    return CompletableFuture.failedFuture(e);
                }
            }
        };
    }
}
