package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.SampleSlice;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.CoordinatorStore;
import org.apache.flink.runtime.operators.coordination.CoordinatorStoreImpl;
import org.apache.flink.runtime.operators.coordination.MockOperatorCoordinatorContext;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;
import org.apache.flink.util.SerializedValue;
import org.junit.jupiter.api.Test;

/** Reports on their way to the control task, through a JobManager that loses some. */
class PartitionReporterTest {

    private static final int PARTITIONS = 100;
    private static final int VECTOR_BYTES = 80_000;

    private final OperatorID operator = new OperatorID();
    private final CoordinatorStore meeting = new CoordinatorStoreImpl();
    private final ControlCoordinator search = relay(false);
    private final ControlCoordinator control = relay(true);
    private final List<PartitionReport> sent = new ArrayList<>();
    private CompletableFuture<CoordinationResponse> answer = new CompletableFuture<>();

    @Test
    void aReportThatIsLostHarmsNobodyAndIsRepeated() {
        PartitionReporter reporter = new PartitionReporter(new Gateway(), operator);
        PartitionReport report = PartitionReport.of(3, 4, 7, 9);
        answer = CompletableFuture.failedFuture(new TimeoutException("too busy"));
        reporter.send(report);
        reporter.send(report);
        assertThat(sent).containsExactly(report, report);
    }

    @Test
    void whatSaysNothingNewWaitsForTheAnswer() {
        PartitionReporter reporter = new PartitionReporter(new Gateway(), operator);
        assertThat(reporter.send(PartitionReport.of(3, 4, 7, 9))).isTrue();
        assertThat(reporter.send(PartitionReport.of(3, 4, 7, 9))).isFalse();
        assertThat(sent).hasSize(1);
        reporter.send(PartitionReport.of(3, 4, 7, 10));
        assertThat(sent).hasSize(2);
        answer.complete(null);
        reporter.send(PartitionReport.of(3, 4, 7, 10));
        assertThat(sent).hasSize(3);
    }

    @Test
    void loadsAreToldOnceAndNotAfterAStep() throws Exception {
        search.handleCoordinationRequest(loaded(0, 9));
        search.handleCoordinationRequest(PartitionReport.of(0, 2, 7, 9));
        search.handleCoordinationRequest(loaded(1, 9));
        search.handleCoordinationRequest(PartitionReport.of(1, 2, 7, 10));
        List<PartitionReport> first = ask();
        assertThat(first).extracting(PartitionReport::hasLoads).containsExactly(true, false);
        assertThat(first).extracting(PartitionReport::position).containsExactly(9L, 10L);
        assertThat(ask()).extracting(PartitionReport::hasLoads).containsExactly(false, false);
    }

    /** The control task may ask less often than partitions report. */
    @Test
    void costsThatWereNotToldYetCountWithTheNewestRows() throws Exception {
        SampleSlice rows = new SampleSlice(0.5, 1, new byte[] {1});
        search.handleCoordinationRequest(
                loads(new short[] {1, 3}, new int[] {5, 7}, new int[] {60, 80}, rows));
        search.handleCoordinationRequest(
                loads(new short[] {2, 3}, new int[] {4, 9}, new int[] {10, 20}, null));
        PartitionReport told = ask().get(0);
        assertThat(told.buckets()).containsExactly((short) 1, (short) 2, (short) 3);
        assertThat(told.rows()).containsExactly(0, 4, 9);
        assertThat(told.micros()).containsExactly(60, 10, 100);
        assertThat(told.drawn().slice()).isEqualTo(1);
        assertThat(ask().get(0).hasLoads()).isFalse();
    }

    private static PartitionReport loads(
            short[] buckets, int[] rows, int[] micros, SampleSlice drawn) {
        return new PartitionReport(0, 1, 7, 9, buckets, rows, micros, drawn);
    }

    /** Flink's limit for an answer is 10 MB; positions of all partitions are in each of them. */
    @Test
    void anAnswerIsNeverTooLong() throws Exception {
        for (int partition = 0; partition < PARTITIONS; partition++) {
            search.handleCoordinationRequest(loaded(partition, 9));
        }
        int loads = 0;
        for (int question = 0; question < 3; question++) {
            CoordinationResponse whole =
                    control.handleCoordinationRequest(new ControlCoordinator.ReportsRequest())
                            .get();
            assertThat(new SerializedValue<>(whole).getByteArray().length).isLessThan(5 << 20);
            List<PartitionReport> reports =
                    ControlCoordinator.reports(whole, getClass().getClassLoader());
            assertThat(reports).hasSize(PARTITIONS).allMatch(one -> one.position() == 9);
            loads += (int) reports.stream().filter(PartitionReport::hasLoads).count();
        }
        assertThat(loads).isEqualTo(PARTITIONS);
    }

    private static PartitionReport loaded(int partition, long position) {
        SampleSlice rows = new SampleSlice(0.5, 1, new byte[VECTOR_BYTES]);
        return new PartitionReport(
                partition,
                PARTITIONS,
                7,
                position,
                new short[] {1},
                new int[] {5},
                new int[] {6},
                rows);
    }

    private List<PartitionReport> ask() throws Exception {
        return ControlCoordinator.reports(
                control.handleCoordinationRequest(new ControlCoordinator.ReportsRequest()).get(),
                getClass().getClassLoader());
    }

    private ControlCoordinator relay(boolean ofControl) {
        return (ControlCoordinator)
                new ControlCoordinator.CoordinatorProvider(operator, "texts", ofControl, null)
                        .create(
                                new MockOperatorCoordinatorContext(operator, 1) {
                                    @Override
                                    public CoordinatorStore getCoordinatorStore() {
                                        return meeting;
                                    }
                                });
    }

    private final class Gateway implements TaskOperatorEventGateway {

        @Override
        public void sendOperatorEventToCoordinator(
                OperatorID to, SerializedValue<OperatorEvent> event) {
            throw new IllegalStateException("An event that is lost fails the task.");
        }

        @Override
        public CompletableFuture<CoordinationResponse> sendRequestToCoordinator(
                OperatorID to, SerializedValue<CoordinationRequest> request) {
            try {
                sent.add((PartitionReport) request.deserializeValue(getClass().getClassLoader()));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            return answer;
        }
    }
}
