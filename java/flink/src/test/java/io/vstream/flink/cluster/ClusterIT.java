package io.vstream.flink.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledIfSystemProperty;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** The packaged job on a cluster of processes, under fire. */
class ClusterIT {

    private static final String MINUTES = "vstream.chaos.minutes";
    private static final long SEED = Long.getLong("vstream.chaos.seed", 20_251_122);
    private static final int PER_SECOND = Integer.getInteger("vstream.chaos.rate", 2_000);
    private static final FlinkProcesses.Scheduler SCHEDULER =
            FlinkProcesses.Scheduler.valueOf(
                    System.getProperty("vstream.chaos.scheduler", "default")
                            .toUpperCase(Locale.ROOT));

    /** Kept after a failure, for the logs in it. */
    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private Path folder;

    @Test
    @DisabledIfSystemProperty(named = MINUTES, matches = ".*")
    void killsABounceAndARescaleLoseNothing() throws Exception {
        try (Chaos chaos = Chaos.start(folder, SEED, SCHEDULER)) {
            chaos.run(
                    List.of(
                            Chaos.Event.KILL_TASK_MANAGER,
                            Chaos.Event.BOUNCE_BROKER,
                            Chaos.Event.RESCALE_FROM_SAVEPOINT),
                    PER_SECOND);
            nothingIsWrong(chaos);
        }
    }

    @Test
    @DisabledIfSystemProperty(named = MINUTES, matches = ".*")
    void aRestoreThatForgetsRowsIsNoticed() throws Exception {
        try (Chaos chaos = Chaos.start(folder, SEED, SCHEDULER, "forget-shards-on-restore")) {
            chaos.run(List.of(Chaos.Event.KILL_TASK_MANAGER), PER_SECOND);
            assertThat(chaos.result().path("lost").asLong()).isPositive();
            assertThat(chaos.result().path("unanswered").asLong()).isZero();
        }
    }

    @Test
    @EnabledIfSystemProperty(named = MINUTES, matches = ".+")
    void randomEventsLoseNothing() throws Exception {
        Duration duration = Duration.ofSeconds((long) (60 * Double.parseDouble(minutes())));
        try (Chaos chaos = Chaos.start(folder, SEED, SCHEDULER)) {
            try {
                chaos.run(duration, PER_SECOND);
            } finally {
                Path result = Path.of(System.getProperty("vstream.chaos.result"));
                Files.writeString(result, chaos.result() + "\n");
            }
            nothingIsWrong(chaos);
        }
    }

    private static String minutes() {
        return System.getProperty(MINUTES);
    }

    private static void nothingIsWrong(Chaos chaos) throws IOException {
        assertThat(chaos.findings()).as("seed %d, %s", SEED, chaos.result()).isEmpty();
        for (String count : List.of("lost", "duplicates", "ghosts", "unanswered")) {
            assertThat(chaos.result().path(count).asLong()).as(count).isZero();
        }
        // Without one of them nobody has looked at recall.
        assertThat(chaos.result().path("approximate").asLong()).as("approximate").isPositive();
    }
}
