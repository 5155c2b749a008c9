package io.vstream.flink.job;

import io.vstream.flink.fault.Fault;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The whole job with one family of hashes while the boundaries of partitions follow a stream that
 * drifts, with queries between the writes and failures in every step, held to the oracle: nothing
 * lost, nothing twice, nothing that was deleted.
 */
class BoundaryShiftIT {

    private static final long SEED = 20_251_206;
    private static final int WRITES = 10_000;
    private static final int DIMENSION = 8;
    private static final int QUERIES = 200;
    private static final int ASKED_EVERY = 20;

    @TempDir private Path folder;

    @Test
    void boundariesFollowTheStream() throws Exception {
        PacedRuns.hold(script(SEED, WRITES), 4, this::shifting, scenario -> scenario.adopted() > 0);
    }

    @Test
    void rowsInSegmentsFollowTheBoundaries() throws Exception {
        PacedRuns.hold(
                script(SEED + 1, WRITES),
                3,
                paced -> shifting(paced).withMemory(1 << 16),
                scenario -> scenario.adopted() > 0);
    }

    @ParameterizedTest
    @EnumSource(value = Fault.class, mode = EnumSource.Mode.MATCH_ALL, names = "FAIL_IN_.*")
    void aFailureInAnyStepLosesNothing(Fault failure) throws Exception {
        PacedRuns.hold(
                script(SEED + 10 + failure.ordinal(), WRITES),
                3,
                paced -> shifting(paced).with(failure),
                scenario -> scenario.attempts() == 2 && scenario.adopted() > 0);
    }

    @Test
    void aSavepointAfterShiftsRestoresAtAnotherParallelism() throws Exception {
        PacedRuns.hold(
                script(SEED + 2, WRITES / 2, WRITES),
                3,
                paced ->
                        shifting(paced)
                                .asking(new AskedScript(paced, WRITES / 2, ASKED_EVERY))
                                .from(shifting(paced).stopAt(1, 4)),
                scenario -> scenario.epoch() > 2);
    }

    private Scenario shifting(WriteScript paced) {
        return new Scenario(paced, folder)
                .withFamilies(1)
                .rebalancing("boundary")
                .asking(new AskedScript(paced, paced.gates()[0], ASKED_EVERY));
    }

    private static WriteScript script(long seed, int... laterGates) {
        int[] gates = new int[1 + laterGates.length];
        gates[0] = 1_000;
        System.arraycopy(laterGates, 0, gates, 1, laterGates.length);
        return new WriteScript(DIMENSION, seed, true, 600, WRITES, QUERIES, 4_000, gates);
    }
}
