package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The whole job while cells are split and ranges change partition under a stream that drifts, with
 * two task managers and failures in every step, held to the oracle: nothing lost, nothing twice,
 * nothing that was deleted.
 */
class HandOverIT {

    private static final long SEED = 20_251_122;
    private static final int WRITES = 10_000;

    @TempDir private Path folder;

    @Test
    void rowsChangePartitionUnderLoad() throws Exception {
        WriteScript script = script(SEED);
        Scenario scenario = new Scenario(script, folder).rebalancing("cells");
        assertThat(scenario.differences(4)).as("seed %d", script.seed()).isEmpty();
        assertThat(scenario.adopted()).isPositive();
        assertThat(scenario.cells()).isGreaterThan(Scenario.CELLS);
    }

    @Test
    void rowsInSegmentsChangePartitionToo() throws Exception {
        WriteScript script = script(SEED + 3);
        Scenario scenario =
                new Scenario(script, folder)
                        .withMemory(1 << 16)
                        .rebalancing("cells")
                        .with(Fault.FAIL_IN_ADOPT);
        assertThat(scenario.differences(3)).as("seed %d", script.seed()).isEmpty();
        assertThat(scenario.adopted()).isPositive();
    }

    @Test
    void boundariesMoveUnderLoad() throws Exception {
        WriteScript script = script(SEED + 1);
        Scenario scenario = new Scenario(script, folder).rebalancing("boundary");
        assertThat(scenario.differences(2)).as("seed %d", script.seed()).isEmpty();
        assertThat(scenario.adopted()).isPositive();
        assertThat(scenario.cells()).isGreaterThan(Scenario.CELLS);
    }

    @ParameterizedTest
    @EnumSource(value = Fault.class, mode = EnumSource.Mode.MATCH_ALL, names = "FAIL_IN_.*")
    void aFailureInAnyStepLosesNothing(Fault failure) throws Exception {
        WriteScript script = script(SEED + 10 + failure.ordinal());
        Scenario scenario = new Scenario(script, folder).rebalancing("cells").with(failure);
        assertThat(scenario.differences(3)).as("seed %d", script.seed()).isEmpty();
        assertThat(scenario.attempts()).isEqualTo(2);
        assertThat(scenario.adopted()).isPositive();
        assertThat(scenario.cells()).isGreaterThan(Scenario.CELLS);
    }

    @Test
    void aSavepointBetweenHandOversRestoresAtAnotherParallelism() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 2, true, 600, WRITES, 40, 4_000, 1_000, WRITES / 2, WRITES);
        String savepoint = new Scenario(script, folder).rebalancing("cells").stopAt(1, 4);
        Scenario scenario = new Scenario(script, folder).rebalancing("cells").from(savepoint);
        assertThat(scenario.differences(3)).as("seed %d", script.seed()).isEmpty();
        assertThat(scenario.cells()).isGreaterThan(Scenario.CELLS);
    }

    private static WriteScript script(long seed) {
        return new WriteScript(seed, true, 600, WRITES, 40, 4_000, 1_000, WRITES);
    }
}
