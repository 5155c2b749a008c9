package io.vstream.flink.search;

import io.vstream.flink.job.Fault;
import io.vstream.nativecore.NativeCapture;
import io.vstream.nativecore.NativeEngine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.RunnableFuture;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;

/**
 * The engine of one partition and its files: restored when the subtask begins, captured at every
 * barrier, gone with the subtask. The folder's name is new for every attempt, so nothing that an
 * attempt leaves is ever read.
 */
final class PartitionState implements AutoCloseable {

    private final SearchSettings settings;
    private final KeyGroupRange shards;
    private final Path folder;
    private final SegmentSnapshotStore store;
    private NativeEngine engine;

    /**
     * @param shards that the subtask owns
     * @param parent where the private folder is made
     */
    PartitionState(SearchSettings settings, KeyGroupRange shards, int partition, Path parent)
            throws IOException {
        this.settings = settings;
        this.shards = shards;
        this.store = new IncrementalStore(shards);
        Files.createDirectories(parent);
        folder = Files.createTempDirectory(parent, "partition-" + partition + "-");
    }

    /** Opens the engine with what the handles hold; empty if there are none. */
    void restore(Collection<KeyedStateHandle> handles) throws IOException {
        Path restored = folder.resolve("restore");
        List<Path> states = store.download(handles, restored);
        Path home = folder.resolve("engine");
        if (!states.isEmpty() && settings.faults().contains(Fault.FORGET_SHARDS_ON_RESTORE)) {
            states = List.of(withoutLowerShards(states));
        }
        engine = assemble(home, shards.getStartKeyGroup(), states);
        Folders.delete(restored);
    }

    /** The engine; null before {@link #restore}. */
    NativeEngine engine() {
        return engine;
    }

    /** Private to this attempt, and gone with it. */
    Path folder() {
        return folder;
    }

    /** The state of this moment, to be uploaded beside the task. */
    RunnableFuture<SnapshotResult<KeyedStateHandle>> snapshot(SegmentSnapshotStore.Target target)
            throws IOException {
        NativeCapture state = engine.capture();
        try {
            return store.upload(target, state);
        } catch (IOException | RuntimeException e) {
            state.close();
            throw e;
        }
    }

    /** See {@link SegmentSnapshotStore#completed}. */
    void completed(long checkpointId) {
        store.completed(checkpointId);
    }

    /** See {@link SegmentSnapshotStore#aborted}. */
    void aborted(long checkpointId) {
        store.aborted(checkpointId);
    }

    @Override
    public void close() {
        if (engine != null) {
            engine.close();
        }
        Folders.delete(folder);
    }

    private NativeEngine assemble(Path home, int firstShard, List<Path> states) {
        return NativeEngine.assemble(
                settings.collection(), home, firstShard, shards.getEndKeyGroup(), states);
    }

    /** A state that lacks rows, for the tests. */
    private Path withoutLowerShards(List<Path> states) throws IOException {
        Path folderOfState = Files.createDirectory(folder.resolve("restore").resolve("damaged"));
        Path home = folder.resolve("damaged");
        int middle = (shards.getStartKeyGroup() + shards.getEndKeyGroup()) / 2;
        try (NativeEngine damaged = assemble(home, middle + 1, states);
                NativeCapture state = damaged.capture()) {
            for (NativeCapture.File file : state.write()) {
                Files.copy(file.path(), folderOfState.resolve(file.name()));
            }
            Files.write(folderOfState.resolve(NativeCapture.MANIFEST), state.manifest());
        }
        return folderOfState;
    }
}
