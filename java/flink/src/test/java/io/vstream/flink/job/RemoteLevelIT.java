package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.search.Folders;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import java.util.stream.Stream;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Jobs whose flushed rows lie in a folder beside them, on two task managers. */
class RemoteLevelIT {

    private static final long SEED = 20260801;
    private static final int WRITES = 6_000;

    @TempDir private Path folder;

    @ParameterizedTest
    @EnumSource(names = {"CLAIM", "NO_CLAIM"})
    void aCheckpointThatNamesRowsInTheStoreRestoresAtAnotherParallelism(RecoveryClaimMode mode)
            throws Exception {
        Path first = folder.resolve("first");
        Path second = folder.resolve("second");
        WriteScript script =
                new WriteScript(SEED, 600, WRITES, 40, 3_000, 1_000, 2_000, 4_000, WRITES);
        String at = scenario(script, first).cancelAt(1, 2);
        assertThat(pointers(first)).as("files that stand for rows in the store").isPositive();
        List<Path> ofTheFirst = store();
        assertThat(ofTheFirst).isNotEmpty();
        at = scenario(script, second).from(at, mode).cancelAt(2, 4);
        if (mode == RecoveryClaimMode.NO_CLAIM) {
            // The second job has a complete checkpoint: nothing of the first one is needed.
            Folders.delete(first);
            for (Path file : ofTheFirst) {
                Files.deleteIfExists(file);
            }
        }
        Path third = folder.resolve("third");
        assertThat(scenario(script, third).from(at, mode).failingAfter(1_000).differences(2))
                .as("seed %d", SEED)
                .isEmpty();
    }

    @Test
    void aJobThatFailsGoesOnFromWhatItsCheckpointNames() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 1, 600, WRITES, 40, 2_000, 1_000, 3_000, WRITES);
        Scenario scenario = scenario(script, folder.resolve("job")).failingAfter(5_000);
        assertThat(scenario.differences(2)).as("seed %d", SEED + 1).isEmpty();
        assertThat(store()).isNotEmpty();
    }

    @Test
    void aSavepointHoldsEverything() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 2, 600, WRITES, 40, 4_000, 1_000, 4_000, WRITES);
        Path first = folder.resolve("first");
        String at = scenario(script, first).stopAt(1, 2);
        assertThat(store()).isNotEmpty();
        Folders.delete(folder.resolve("store"));
        // Without a remote level from here on.
        Scenario next = new Scenario(script, folder.resolve("second")).withMemory(1 << 16);
        assertThat(next.from(at).differences(3)).as("seed %d", SEED + 2).isEmpty();
    }

    @Test
    void whatNoCheckpointNamesIsDeletedWhileTheJobRuns() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 3, 600, WRITES, 40, 4_000, 1_000, 2_000, WRITES);
        Set<Path> early = new HashSet<>();
        IntConsumer atGate =
                stage -> {
                    if (stage == 1) {
                        early.addAll(store());
                    } else if (stage == 2) {
                        // Merges replaced some of it; checkpoints go on, and each drops one.
                        awaitWithout(early);
                    }
                };
        Scenario scenario = scenario(script, folder.resolve("job")).atGates(atGate);
        assertThat(scenario.differences(2)).as("seed %d", SEED + 3).isEmpty();
        assertThat(early).isNotEmpty();
    }

    private void awaitWithout(Set<Path> early) {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (store().containsAll(early)) {
            assertThat(System.nanoTime()).as("%s", early).isLessThan(end);
            LockSupport.parkNanos(Duration.ofMillis(50).toNanos());
        }
    }

    private Scenario scenario(WriteScript script, Path checkpoints) {
        return new Scenario(script, checkpoints).withRemote(folder.resolve("store").toString());
    }

    private List<Path> store() {
        try (Stream<Path> files = Files.list(folder.resolve("store"))) {
            return files.filter(file -> !file.toString().endsWith(".partial")).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Pointers in the metadata of checkpoints, which holds small files itself. */
    private static long pointers(Path checkpoints) throws Exception {
        try (Stream<Path> walk = Files.walk(checkpoints)) {
            long found = 0;
            for (Path file : walk.filter(Files::isRegularFile).toList()) {
                String text = Files.readString(file, StandardCharsets.ISO_8859_1);
                found += text.contains("vstream-far 1") ? 1 : 0;
            }
            return found;
        }
    }
}
