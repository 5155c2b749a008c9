package io.vstream.flink.job;

import io.vstream.flink.fault.Fault;
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

    /** Few, so that loads differ enough for cells to change partition within a run. */
    private static final int DIMENSION = 8;

    @TempDir private Path folder;

    @Test
    void rowsChangePartitionUnderLoad() throws Exception {
        WriteScript script = script(SEED);
        PacedRuns.hold(
                script,
                4,
                paced -> new Scenario(paced, folder).rebalancing("cells"),
                HandOverIT::split);
    }

    @Test
    void rowsInSegmentsChangePartitionToo() throws Exception {
        WriteScript script = script(SEED + 3);
        PacedRuns.hold(
                script,
                3,
                paced ->
                        new Scenario(paced, folder)
                                .withMemory(1 << 16)
                                .rebalancing("cells")
                                .with(Fault.FAIL_IN_ADOPT),
                scenario -> scenario.adopted() > 0);
    }

    @Test
    void boundariesMoveUnderLoad() throws Exception {
        WriteScript script = script(SEED + 1);
        PacedRuns.hold(
                script,
                2,
                paced -> new Scenario(paced, folder).rebalancing("boundary"),
                HandOverIT::split);
    }

    @ParameterizedTest
    @EnumSource(value = Fault.class, mode = EnumSource.Mode.MATCH_ALL, names = "FAIL_IN_.*")
    void aFailureInAnyStepLosesNothing(Fault failure) throws Exception {
        WriteScript script = script(SEED + 10 + failure.ordinal());
        PacedRuns.hold(
                script,
                3,
                paced -> new Scenario(paced, folder).rebalancing("cells").with(failure),
                scenario -> scenario.attempts() == 2 && split(scenario));
    }

    private static boolean split(Scenario scenario) {
        return scenario.adopted() > 0 && scenario.cells() > Scenario.CELLS;
    }

    @Test
    void aSavepointBetweenHandOversRestoresAtAnotherParallelism() throws Exception {
        WriteScript script =
                new WriteScript(
                        DIMENSION,
                        SEED + 2,
                        true,
                        600,
                        WRITES,
                        40,
                        1_500,
                        1_000,
                        WRITES / 2,
                        WRITES);
        PacedRuns.hold(
                script,
                3,
                paced ->
                        new Scenario(paced, folder)
                                .rebalancing("cells")
                                .from(
                                        new Scenario(paced, folder)
                                                .rebalancing("cells")
                                                .stopAt(1, 4)),
                scenario -> scenario.cells() > Scenario.CELLS);
    }

    private static WriteScript script(long seed) {
        return new WriteScript(DIMENSION, seed, true, 600, WRITES, 40, 4_000, 1_000, WRITES);
    }
}
