package io.vstream.flink.search;

import static io.vstream.flink.search.CheckpointLab.all;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.state.IncrementalKeyedStateHandle.HandleAndLocalPath;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What stays in a remote level, whichever checkpoints are dropped, given up or restored. */
class RemoteFilesTest {

    private static final CheckpointType CHECKPOINT = CheckpointType.CHECKPOINT;
    private static final int ROWS = 20_000;
    private static final long LIMIT_NANOS = 30_000_000_000L;

    @TempDir private Path folder;

    @Test
    void whatACheckpointNamesStaysUntilItIsDropped() throws Exception {
        try (CheckpointLab lab = lab("engine")) {
            fill(lab, 1);
            var first = lab.completed(lab.take(1, CHECKPOINT));
            assertThat(pointers(first)).isPositive();
            fill(lab, 2);
            var second = lab.completed(lab.take(2, CHECKPOINT));
            assertVersion("look-1", 1, first);
            Set<String> both = store();
            lab.store.subsumed(1);
            await(() -> !store().containsAll(both));
            assertVersion("look-2", 2, second);
            fill(lab, 3);
            // Who knows whether a checkpoint that was given up is restored, until a later one is
            // there and the one before is dropped?
            var third = lab.registered(lab.take(3, CHECKPOINT));
            lab.store.aborted(3);
            fill(lab, 4);
            assertVersion("look-3", 3, third);
            assertVersion("look-2-again", 2, second);
            var fourth = lab.completed(lab.take(4, CHECKPOINT));
            Set<String> all = store();
            lab.store.subsumed(3);
            await(() -> !store().containsAll(all));
            assertVersion("look-4", 4, fourth);
        }
    }

    @Test
    void aTaskThatEndsDeletesNothingAndTheNextOneInheritsIt() throws Exception {
        IncrementalRemoteKeyedStateHandle last;
        try (CheckpointLab lab = lab("first")) {
            fill(lab, 1);
            last = lab.completed(lab.take(1, CHECKPOINT));
            fill(lab, 2);
        }
        assertVersion("look", 1, last);
        Set<String> left = store();
        try (CheckpointLab lab = lab("second", last)) {
            // A checkpoint may name files of the one that was restored.
            lab.registered(last);
            lab.store.whenClaimed(lab.engine::inheritRemote);
            fill(lab, 3);
            var next = lab.completed(lab.take(2, CHECKPOINT));
            assertThat(store()).containsAll(left);
            lab.store.subsumed(1);
            await(() -> !store().containsAll(left));
            assertVersion("look-next", 3, next);
        }
    }

    @Test
    void aJobThatLeavesAnotherItsFilesNeedsNoneOfThem() throws Exception {
        IncrementalRemoteKeyedStateHandle last;
        try (CheckpointLab lab = lab("first")) {
            fill(lab, 1);
            last = lab.completed(lab.take(1, CHECKPOINT));
        }
        Set<String> left = store();
        try (CheckpointLab lab = lab("second", last)) {
            // A checkpoint may name files of the one that was restored.
            lab.registered(last);
            lab.store.whenClaimed(lab.engine::inheritRemote);
            var full = lab.completed(lab.take(2, CheckpointType.FULL_CHECKPOINT));
            lab.store.subsumed(1);
            for (String name : left) {
                Files.delete(folder.resolve("store").resolve(name));
            }
            assertVersion("look", 1, full);
            assertThat(lab.rows()).hasSize(1_000);
        }
    }

    private CheckpointLab lab(String name, KeyedStateHandle... restored) throws Exception {
        String settings =
                """
                {"dimension": 4, "metric": "l2", "encoder": {"kind": "id"}, "memory": 65536,
                 "remote": "%s", "disk": 0}
                """
                        .formatted(folder.resolve("store"));
        return new CheckpointLab(folder, name, all(), settings, 0, restored);
    }

    /** Writes every row, and waits until nothing but the newest is on the disk. */
    private void fill(CheckpointLab lab, long version) throws Exception {
        for (int from = 0; from < ROWS; from += 1_000) {
            lab.upsert(from, from + 1_000, version);
            lab.engine.share().close();
        }
        await(
                () -> {
                    // A shared state begins what is due.
                    lab.engine.share().close();
                    return lab.engine.statsJson().contains("\"local-bytes\":0");
                });
    }

    private void assertVersion(String name, long version, KeyedStateHandle... handles)
            throws Exception {
        try (CheckpointLab lab = lab(name, handles)) {
            Map<Long, Long> rows = lab.rows();
            assertThat(rows).hasSize(1_000);
            assertThat(Set.copyOf(rows.values())).containsExactly(version);
        }
    }

    private static long pointers(IncrementalRemoteKeyedStateHandle handle) {
        return handle.getSharedState().stream()
                .map(HandleAndLocalPath::getLocalPath)
                .filter(path -> path.contains(".far."))
                .count();
    }

    private Set<String> store() {
        try (Stream<Path> files = Files.list(folder.resolve("store"))) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> !name.endsWith(".partial"))
                    .collect(Collectors.toCollection(TreeSet::new));
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static void await(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + LIMIT_NANOS;
        while (!condition.getAsBoolean()) {
            assertThat(System.nanoTime()).isLessThan(end);
            Thread.sleep(20);
        }
    }
}
