package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import java.util.function.Predicate;

/** Runs a script at the pace that it has. */
interface PacedRuns {

    /** Most runs until one has what a test is about. */
    int RUNS_MAX = 6;

    /** The scenario of one run. */
    Scenario of(WriteScript paced) throws Exception;

    /**
     * Every run agrees with the oracle, and one of them had what the test is about: that depends on
     * loads, and so on how busy the machine is. Each second run is slower than those before it.
     */
    static void hold(WriteScript script, int parallelism, PacedRuns runs, Predicate<Scenario> had)
            throws Exception {
        for (int run = 0; run < RUNS_MAX; run++) {
            Scenario scenario = runs.of(script.slower(1 + run / 2));
            assertThat(scenario.differences(parallelism)).as("seed %d", script.seed()).isEmpty();
            if (had.test(scenario)) {
                return;
            }
        }
        fail("None of %d runs with seed %d changed partitions as meant.", RUNS_MAX, script.seed());
    }
}
