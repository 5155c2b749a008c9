package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import org.apache.flink.core.testutils.CommonTestUtils;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.MockOperatorCoordinatorContext;
import org.junit.jupiter.api.Test;

/** What partitions hear of audits, through the JobManager. */
class RecallSteeringTest {

    private final OperatorID operator = new OperatorID();
    private final ControlCoordinator relay =
            (ControlCoordinator)
                    new ControlCoordinator.CoordinatorProvider(operator, "", false, null)
                            .create(new MockOperatorCoordinatorContext(operator, 1));

    @Test
    void partitionsHearTheSumsOfAllMergers() throws Exception {
        assertThat(ask(0, 2, Double.NaN)).isEqualTo(new RecallSteering.Totals(0, 0, 0, 0, 0));
        // Nobody knows what partitions miss: nothing to compare with.
        tell(new MergedAudits(5, 1, 1));
        assertThat(ask(0, 2, 0.02).audits()).isZero();
        tell(new MergedAudits(2, 0.3, 0.1));
        ask(1, 2, 0.04);
        tell(new MergedAudits(1, 0.0, 0.2));
        RecallSteering.Totals sums = ask(1, 2, 0.04);
        assertThat(sums.audits()).isCloseTo(3, within(0.01));
        assertThat(sums.lost()).isCloseTo(0.3, within(0.001));
        assertThat(sums.missed()).isCloseTo(0.3, within(0.001));
        assertThat(sums.ownMissed()).isCloseTo(2 * 0.02 + 0.03, within(0.001));
        assertThat(sums.ownAllowed()).isCloseTo(2 * sums.ownMissed(), within(1e-9));
    }

    @Test
    void oldAuditsAreForgotten() throws Exception {
        ask(0, 1, 0.05);
        for (int i = 0; i < 4_000; i++) {
            tell(new MergedAudits(1, 0.5, 0));
        }
        for (int i = 0; i < 4_000; i++) {
            tell(new MergedAudits(1, 0, 0.1));
        }
        RecallSteering.Totals sums = ask(0, 1, 0.05);
        assertThat(sums.audits()).isBetween(500.0, 1_000.0);
        assertThat(sums.lost() / sums.audits()).isLessThan(0.005);
        assertThat(sums.missed() / sums.audits()).isCloseTo(0.1, within(0.001));
    }

    @Test
    void anotherNumberOfPartitionsBeginsAnew() throws Exception {
        ask(0, 2, 0.05);
        tell(new MergedAudits(9, 1, 1));
        assertThat(ask(1, 2, 0.05).audits()).isEqualTo(9);
        relay.executionAttemptFailed(0, 0, null);
        assertThat(ask(1, 2, 0.05).audits()).isEqualTo(9);
        assertThat(ask(1, 3, 0.05).audits()).isZero();
    }

    private void tell(MergedAudits audits) throws Exception {
        relay.handleCoordinationRequest(CommonTestUtils.createCopySerializable(audits)).get();
    }

    private RecallSteering.Totals ask(int partition, int partitions, double ownMissed)
            throws Exception {
        return RecallSteering.Totals.of(
                relay.handleCoordinationRequest(
                                CommonTestUtils.createCopySerializable(
                                        new RecallSteering.Request(
                                                partition, partitions, ownMissed, 2 * ownMissed)))
                        .get());
    }
}
