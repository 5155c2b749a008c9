package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.VectorQuery;
import io.vstream.flink.ask.JobReader;
import io.vstream.flink.ask.JobUnavailable;
import io.vstream.flink.ask.ReadOptions;
import io.vstream.flink.fault.Fault;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A job is asked from outside while cells are split, ranges change partition and a step fails:
 * every exact answer holds each row that is written no more, once, and nothing that was deleted.
 */
class JobReaderIT {

    private static final long SEED = 20_261_126;
    private static final int WRITES = 10_000;
    private static final int IDS = 600;

    @TempDir private Path folder;

    @ParameterizedTest
    @CsvSource({"FAIL_IN_ADOPT, false", "FAIL_IN_SETTLE, true"})
    void answersGoOnThroughHandOversAndARestart(Fault failure, boolean others) throws Exception {
        WriteScript script =
                new WriteScript(
                        8, SEED + failure.ordinal(), true, IDS, WRITES, 40, 4_000, 1_000, WRITES);
        List<Reading> readings = new ArrayList<>();
        try {
            PacedRuns.hold(
                    script,
                    3,
                    paced -> {
                        String checkpoints =
                                folder.resolve("run-" + readings.size()).toUri().toString();
                        Scenario scenario =
                                new Scenario(paced, checkpoints)
                                        .rebalancing("cells")
                                        .with(failure)
                                        .readable();
                        Reading reading =
                                new Reading(paced, scenario::applied, checkpoints, others);
                        readings.add(reading);
                        return scenario.atGates(reading::beforeGate);
                    },
                    scenario -> {
                        readings.get(readings.size() - 1).end();
                        return scenario.adopted() > 0;
                    });
        } finally {
            readings.forEach(Reading::end);
        }
        readings.forEach(
                reading -> {
                    assertThat(reading.wrong()).as("seed %d", script.seed()).isEmpty();
                    System.out.println(reading);
                });
        Reading last = readings.get(readings.size() - 1);
        assertThat(last.hasFound()).as(last.toString()).isTrue();
    }

    @Test
    void whereNoJobRunsThatIsSaid() throws Exception {
        ReadOptions hasty = new ReadOptions("", null, Duration.ofMillis(100), 10);
        try (JobReader reader = new JobReader(folder.toUri().toString(), "", hasty)) {
            assertThatThrownBy(() -> reader.search(VectorQuery.of(1, 1, 2)))
                    .isInstanceOf(JobUnavailable.class)
                    .hasMessageContaining("no job has published where it answers");
        }
    }
}
