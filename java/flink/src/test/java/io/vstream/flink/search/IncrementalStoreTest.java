package io.vstream.flink.search;

import static io.vstream.flink.search.CheckpointLab.FILES;
import static io.vstream.flink.search.CheckpointLab.SETTINGS;
import static io.vstream.flink.search.CheckpointLab.all;
import static io.vstream.flink.search.CheckpointLab.placeholders;
import static io.vstream.flink.search.CheckpointLab.restored;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.NativeState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.state.CheckpointStateOutputStream;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.IncrementalKeyedStateHandle.HandleAndLocalPath;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.memory.ByteStreamStateHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What must hold whichever checkpoints complete, fail, or are heard of late. */
class IncrementalStoreTest {

    private static final CheckpointType CHECKPOINT = CheckpointType.CHECKPOINT;

    @TempDir private Path folder;

    @Test
    void aReusedFileIsAPlaceholderSoThatAFailedCheckpointDeletesOnlyItsOwn() throws Exception {
        try (CheckpointLab lab = lab()) {
            lab.fill();
            var first = lab.completed(lab.take(1, CHECKPOINT));
            List<String> before = lab.files();
            lab.upsert(0, 1, 2);
            var second = lab.take(2, CHECKPOINT);
            assertThat(placeholders(second)).isEqualTo(FILES);
            assertThat(lab.files()).hasSizeGreaterThan(before.size());
            second.discardState();
            lab.store.aborted(2);
            assertThat(lab.files()).isEqualTo(before);
            assertThat(restored(folder, first)).hasSize(600).containsEntry(0L, 1L);
            var third = lab.completed(lab.take(3, CHECKPOINT));
            assertThat(restored(folder, third)).hasSize(600).containsEntry(0L, 2L);
        }
    }

    @Test
    void theKindOfSnapshotSaysWhatMayBeNamed() throws Exception {
        try (CheckpointLab lab = lab()) {
            lab.fill();
            lab.completed(lab.take(1, CHECKPOINT));
            var full = lab.take(2, CheckpointType.FULL_CHECKPOINT);
            assertThat(full.getSharedState()).hasSize(FILES);
            assertThat(placeholders(full)).isZero();
            full.discardState();
            lab.store.aborted(2);
            for (SavepointFormatType format : SavepointFormatType.values()) {
                var savepoint = lab.take(3, SavepointType.savepoint(format));
                assertThat(savepoint.getSharedState()).isEmpty();
                assertThat(savepoint.getPrivateState()).hasSize(FILES);
                assertThat(restored(folder, savepoint)).hasSize(600);
                assertThat(savepoint.getPrivateState())
                        .allSatisfy(
                                file -> assertThat(file.getHandle().toString()).contains("chk-3"));
            }
            // A savepoint that completes is no checkpoint whose files may be named.
            lab.store.completed(3);
            assertThat(placeholders(lab.take(4, CHECKPOINT))).isEqualTo(FILES);
        }
    }

    @Test
    void filesOfACheckpointThatIsNotKnownToBeCompleteAreUploadedAgain() throws Exception {
        try (CheckpointLab lab = lab()) {
            lab.fill();
            var first = lab.take(1, CHECKPOINT);
            var second = lab.take(2, CHECKPOINT);
            assertThat(placeholders(second)).isZero();
            first.discardState();
            lab.store.aborted(1);
            lab.completed(second);
            assertThat(restored(folder, second)).hasSize(600);
            assertThat(placeholders(lab.take(3, CHECKPOINT))).isEqualTo(FILES);
        }
    }

    @Test
    void aFileThatWasUploadedAgainIsNotNamedByItsFirstCopy() throws Exception {
        try (CheckpointLab lab = lab()) {
            lab.fill();
            var first = lab.take(1, CHECKPOINT);
            var second = lab.take(2, CHECKPOINT);
            // The JobManager completes both and keeps one; the word of the second is on its way.
            lab.complete(first, 1);
            lab.complete(second, 1);
            lab.store.completed(1);
            var third = lab.take(3, CHECKPOINT);
            lab.complete(third, 1);
            assertThat(restored(folder, third)).hasSize(600);
            // The words come late, the older one last.
            lab.store.completed(3);
            lab.store.completed(2);
            lab.upsert(0, 1, 2);
            var fourth = lab.take(4, CHECKPOINT);
            assertThat(placeholders(fourth)).isEqualTo(FILES);
            lab.complete(fourth, 1);
            assertThat(restored(folder, fourth)).containsEntry(0L, 2L);
        }
    }

    @Test
    void aCompleteCheckpointReplacesWhatWasKnownBefore() throws Exception {
        IncrementalRemoteKeyedStateHandle old;
        try (CheckpointLab lab = lab()) {
            lab.fill();
            old = lab.take(7, CHECKPOINT);
        }
        try (CheckpointLab lab = new CheckpointLab(folder, "next", all(), old)) {
            assertThat(lab.rows()).hasSize(600);
            // The new job leaves the old one its files: its first checkpoint is a full one.
            var full = lab.completed(lab.take(8, CheckpointType.FULL_CHECKPOINT));
            lab.upsert(0, 1, 2);
            var next = lab.completed(lab.take(9, CHECKPOINT));
            old.discardState();
            assertThat(restored(folder, full)).containsEntry(0L, 1L).hasSize(600);
            assertThat(restored(folder, next)).containsEntry(0L, 2L).hasSize(600);
        }
    }

    @Test
    void aRestoredCheckpointThatIsClaimedIsNamed() throws Exception {
        try (CheckpointLab lab = lab()) {
            lab.fill();
            var old = lab.take(7, CHECKPOINT);
            CheckpointLab heir = new CheckpointLab(folder, "heir", all(), old);
            heir.complete(old, 2);
            heir.upsert(600, 601, 1);
            var next = heir.take(8, CHECKPOINT);
            assertThat(placeholders(next)).isEqualTo(FILES);
            heir.completed(next);
            assertThat(restored(folder, next)).hasSize(601);
            heir.close();
        }
    }

    @Test
    void aSubtaskTakesOnlyTheRowsOfItsShards() throws Exception {
        KeyGroupRange low = KeyGroupRange.of(0, 31);
        KeyGroupRange high = KeyGroupRange.of(32, 127);
        try (CheckpointLab lab = lab()) {
            lab.upsert(0, 640, 1);
            lab.completed(lab.take(1, CHECKPOINT));
            lab.upsert(0, 1, 2);
            var state = lab.completed(lab.take(2, CHECKPOINT));
            CheckpointLab first = new CheckpointLab(folder, "first", low, state);
            CheckpointLab second = new CheckpointLab(folder, "second", high, state);
            assertThat(first.rows()).hasSize(160).containsEntry(0L, 2L);
            assertThat(second.rows()).hasSize(480).doesNotContainKey(0L);
            var a = first.completed(first.take(3, CHECKPOINT));
            var b = second.completed(second.take(3, CHECKPOINT));
            assertThat(placeholders(a)).as("files of two are files of nobody").isZero();
            assertThat(restored(folder, a, b)).hasSize(640).containsEntry(0L, 2L);
            first.upsert(128, 129, 3);
            assertThat(placeholders(first.take(4, CHECKPOINT))).isPositive();
            first.close();
            second.close();
        }
    }

    @Test
    void segmentsAreFilesLikeOthers() throws Exception {
        String limited = SETTINGS.replaceFirst("\\{", "{\"memory\":65536,");
        try (CheckpointLab lab = new CheckpointLab(folder, "engine", all(), limited, 0)) {
            IncrementalRemoteKeyedStateHandle last = null;
            int rounds = 0;
            do {
                rounds++;
                lab.upsert(0, 600, rounds);
                last = lab.completed(lab.take(rounds, CHECKPOINT));
            } while (rounds < 500 && segments(last) == 0);
            assertThat(segments(last)).as("after %d checkpoints", rounds).isPositive();
            assertThat(restored(folder, last)).isEqualTo(lab.rows());
            CheckpointLab heir = new CheckpointLab(folder, "heir", all(), limited, 0, last);
            heir.complete(last, 2);
            heir.upsert(0, 1, rounds + 1);
            var next = heir.take(rounds + 1, CHECKPOINT);
            assertThat(placeholders(next)).isPositive();
            heir.completed(next);
            assertThat(restored(folder, next)).isEqualTo(heir.rows());
            heir.close();
        }
    }

    private static long segments(IncrementalRemoteKeyedStateHandle handle) {
        return handle.getSharedState().stream()
                .filter(file -> file.getLocalPath().contains(".segment-"))
                .count();
    }

    @Test
    void theStateIsLetGoWhateverBecomesOfTheUpload() throws Exception {
        List<String> before;
        try (CheckpointLab lab = lab()) {
            lab.fill();
            before = lab.files();
            NativeState failing = lab.engine.share();
            var failed = lab.begin(1, CHECKPOINT, new Failing(lab.streams(1), FILES / 2), failing);
            failed.run();
            assertThatThrownBy(failed::get)
                    .isInstanceOf(ExecutionException.class)
                    .hasRootCauseMessage("The disk is full.");
            assertClosed(failing);
            NativeState never = lab.engine.share();
            var cancelled = lab.begin(2, CHECKPOINT, lab.streams(2), never);
            cancelled.cancel(true);
            cancelled.run();
            assertThat(cancelled.isCancelled()).isTrue();
            assertClosed(never);
            // A savepoint leaves nothing to others, whatever else does.
            NativeState saved = lab.engine.share();
            var savepoint =
                    lab.begin(
                            3,
                            SavepointType.savepoint(SavepointFormatType.NATIVE),
                            new Failing(lab.streams(3), 1),
                            saved);
            savepoint.run();
            assertThatThrownBy(savepoint::get).hasRootCauseMessage("The disk is full.");
            assertClosed(saved);
            assertThat(lab.files()).filteredOn(file -> file.startsWith("chk-")).isEmpty();
            assertThat(lab.files()).as("kept for the next").isNotEqualTo(before);
        }
        try (CheckpointLab lab = new CheckpointLab(folder, "other", all())) {
            assertThat(lab.files()).as("nothing is left after the task").isEqualTo(before);
        }
    }

    /**
     * A job whose files took longer than a checkpoint may once failed, was restored and failed at
     * the next checkpoint again, since every one began with the first file.
     */
    @Test
    void whatACheckpointHadNoTimeForIsThereForTheNext() throws Exception {
        try (CheckpointLab lab = lab()) {
            lab.fill();
            NativeState state = lab.engine.share();
            Stuck slow = new Stuck(lab.streams(1), FILES - 2);
            var first = lab.begin(1, CHECKPOINT, slow, state);
            Thread upload = new Thread(first, "upload");
            upload.start();
            slow.reached.await();
            first.cancel(true);
            upload.join();
            assertThat(catchThrowable(first::get)).isInstanceOf(CancellationException.class);
            lab.store.aborted(1);
            // Its files are read on, and the second checkpoint waits for what the first has begun.
            Failing few = new Failing(lab.streams(2), 2);
            var second = lab.begin(2, CHECKPOINT, few, lab.engine.share());
            Thread other = new Thread(second, "second upload");
            other.start();
            slow.go.countDown();
            other.join();
            var handle =
                    (IncrementalRemoteKeyedStateHandle) second.get().getJobManagerOwnedSnapshot();
            assertClosed(state);
            assertThat(restored(folder, lab.completed(handle))).hasSize(600);
            assertThat(lab.files()).filteredOn(file -> file.startsWith("shared")).hasSize(FILES);
        }
    }

    @Test
    void smallFilesMayStandInTheMetadata() throws Exception {
        try (CheckpointLab lab = new CheckpointLab(folder, "engine", all(), SETTINGS, 1 << 20)) {
            lab.fill();
            var first = lab.completed(lab.take(1, CHECKPOINT));
            assertThat(first.getSharedState())
                    .allSatisfy(
                            file ->
                                    assertThat(file.getHandle())
                                            .isInstanceOf(ByteStreamStateHandle.class));
            lab.upsert(0, 1, 2);
            var second = lab.take(2, CHECKPOINT);
            assertThat(placeholders(second)).isEqualTo(FILES);
            lab.completed(second);
            assertThat(restored(folder, second)).hasSize(600).containsEntry(0L, 2L);
            assertThat(lab.files()).isEmpty();
        }
    }

    @Test
    void filesOfSeveralCheckpointsAreNeverMergedIntoOne() {
        assertThat(
                        io.vstream.flink.dataflow.SearchDataflow.flinkSettings()
                                .get(CheckpointingOptions.FILE_MERGING_ENABLED))
                .isFalse();
    }

    @Test
    void whatTheJobManagerKeepsIsExactlyWhatItsCheckpointsName() throws Exception {
        try (CheckpointLab lab = lab()) {
            IncrementalRemoteKeyedStateHandle[] kept = new IncrementalRemoteKeyedStateHandle[2];
            for (int id = 1; id <= 39; id++) {
                lab.upsert(id * 10, id * 10 + 60, id);
                var handle = lab.take(id, CHECKPOINT);
                if (id % 5 == 0) {
                    handle.discardState();
                    lab.store.aborted(id);
                } else {
                    kept[0] = kept[1];
                    kept[1] = lab.completed(handle);
                }
            }
            long named =
                    List.of(kept).stream()
                            .flatMap(handle -> handle.getSharedState().stream())
                            .map(file -> file.getHandle().getStreamStateHandleID())
                            .distinct()
                            .count();
            assertThat(lab.files())
                    .filteredOn(file -> file.startsWith("shared"))
                    .hasSize((int) named);
            assertThat(restored(folder, kept[1])).isEqualTo(lab.rows());
        }
    }

    @Test
    void pathsThatAreNotOursAreRefused() throws Exception {
        StreamStateHandle file = new ByteStreamStateHandle("file", new byte[] {1});
        for (String path :
                List.of(
                        "../../etc/passwd",
                        "000-127/rows-0000000001-007",
                        "log-0000000001",
                        "0123456789abcdef.log-0000000001",
                        "0123456789abcdef.log-0000000001/../x.0123456789abcdef",
                        "0123456789abcdef.log-0000000001..0123456789abcdef",
                        "0123456789abcdef.COLLECTION.0123456789abcdef")) {
            var handle =
                    new IncrementalRemoteKeyedStateHandle(
                            UUID.randomUUID(),
                            all(),
                            1,
                            List.of(HandleAndLocalPath.of(file, path)),
                            List.of(),
                            file);
            Path into = Files.createTempDirectory(folder, "refused");
            assertThatThrownBy(
                            () ->
                                    new IncrementalStore(all(), false, into)
                                            .download(List.of(handle), into))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("is no file of search state");
        }
    }

    /** An engine that remembers deletes takes those of all shards. */
    @Test
    void rowsOfOtherShardsAreNotCopiedUnlessAllAreWanted() throws Exception {
        StreamStateHandle file = new ByteStreamStateHandle("file", new byte[] {1});
        List<String> names =
                List.of(
                        "base-0000000001.MANIFEST",
                        "base-0000000001.shard-063.rows",
                        "base-0000000001.shard-064.rows",
                        "base-0000000002.shard-1000.rows",
                        "log-0000000003");
        String sum = "0123456789abcdef";
        var files =
                names.stream()
                        .map(name -> HandleAndLocalPath.of(file, sum + "." + name + "." + sum));
        var handle =
                new IncrementalRemoteKeyedStateHandle(
                        UUID.randomUUID(), all(), 1, files.toList(), List.of(), file);
        for (boolean wantsAll : new boolean[] {false, true}) {
            Path into = Files.createTempDirectory(folder, "copied");
            try (var store = new IncrementalStore(new KeyGroupRange(0, 63), wantsAll, into)) {
                var restored = store.download(List.of(handle), into);
                assertThat(restored.whole()).isFalse();
                List<String> wanted = new ArrayList<>(names);
                wanted.add(NativeState.MANIFEST);
                if (!wantsAll) {
                    wanted.remove("base-0000000001.shard-064.rows");
                    wanted.remove("base-0000000002.shard-1000.rows");
                }
                try (var copied = Files.list(restored.states().get(0))) {
                    assertThat(copied.map(path -> path.getFileName().toString()))
                            .containsExactlyInAnyOrderElementsOf(wanted);
                }
            }
        }
    }

    private CheckpointLab lab() throws Exception {
        return new CheckpointLab(folder, "engine", all());
    }

    /** Uploads that are still running hold on to it until they end. */
    private static void assertClosed(NativeState state) throws InterruptedException {
        for (int look = 0; look < 1_000 && catchThrowable(state::manifest) == null; look++) {
            Thread.sleep(5);
        }
        assertThatThrownBy(state::manifest)
                .isInstanceOfSatisfying(
                        EngineException.class,
                        e -> assertThat(e.kind()).isEqualTo(EngineException.Kind.CLOSED));
    }

    /** Lets some files through and fails then. */
    private static class Failing implements CheckpointStreamFactory {

        private final CheckpointStreamFactory inner;
        private final AtomicInteger left;

        private Failing(CheckpointStreamFactory inner, int files) {
            this.inner = inner;
            this.left = new AtomicInteger(files);
        }

        @Override
        public CheckpointStateOutputStream createCheckpointStateOutputStream(
                CheckpointedStateScope scope) throws IOException {
            if (left.getAndDecrement() <= 0) {
                atTheEnd();
            }
            return inner.createCheckpointStateOutputStream(scope);
        }

        void atTheEnd() throws IOException {
            throw new IOException("The disk is full.");
        }

        @Override
        public boolean canFastDuplicate(StreamStateHandle handle, CheckpointedStateScope scope) {
            return false;
        }

        @Override
        public List<StreamStateHandle> duplicate(
                List<StreamStateHandle> handles, CheckpointedStateScope scope) {
            throw new UnsupportedOperationException("Nothing is copied within a checkpoint.");
        }
    }

    /** Lets some files through and holds up the others until it may go on. */
    private static final class Stuck extends Failing {

        private final CountDownLatch reached = new CountDownLatch(1);
        private final CountDownLatch go = new CountDownLatch(1);

        private Stuck(CheckpointStreamFactory inner, int files) {
            super(inner, files);
        }

        @Override
        void atTheEnd() throws IOException {
            reached.countDown();
            try {
                go.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("It was interrupted.", e);
            }
        }
    }
}
