package io.vstream.flink.search;

import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.NativeState;
import io.vstream.nativecore.QueryBatch;
import io.vstream.nativecore.VectorBatch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.RunnableFuture;
import java.util.stream.Stream;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.core.fs.local.LocalFileSystem;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.state.CheckpointStorageLocationReference;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.IncrementalKeyedStateHandle.HandleAndLocalPath;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.PlaceholderStreamStateHandle;
import org.apache.flink.runtime.state.SharedStateRegistryImpl;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.filesystem.FsCheckpointStreamFactory;

/**
 * One subtask's engine and store, and Flink's own registry of shared files in the place of a
 * JobManager, so that a test chooses what completes, what fails and who hears of it when.
 */
final class CheckpointLab implements AutoCloseable {

    static final int DIMENSION = 4;
    static final String SETTINGS =
            "{\"dimension\":4,\"metric\":\"l2\",\"encoder\":{\"kind\":\"id\"}}";

    /** Files that {@link #fill} makes. */
    static final int FILES = 20;

    /** Where the JobManager keeps files; shared by all labs of one folder. */
    private final Path checkpoints;

    private final int inlineBytes;
    private final SharedStateRegistryImpl registry = new SharedStateRegistryImpl();
    private final TreeMap<Long, IncrementalRemoteKeyedStateHandle> retained = new TreeMap<>();
    private final CloseableRegistry task = new CloseableRegistry();
    final IncrementalStore store;
    final NativeEngine engine;

    CheckpointLab(Path folder, String name, KeyGroupRange shards, KeyedStateHandle... restored)
            throws Exception {
        this(folder, name, shards, SETTINGS, 0, restored);
    }

    CheckpointLab(
            Path folder,
            String name,
            KeyGroupRange shards,
            String settings,
            int inlineBytes,
            KeyedStateHandle... restored)
            throws Exception {
        this.inlineBytes = inlineBytes;
        checkpoints = Files.createDirectories(folder.resolve("checkpoints"));
        Files.createDirectories(checkpoints.resolve("shared"));
        store = new IncrementalStore(shards, false, folder.resolve(name + "-brought"));
        var found =
                store.download(
                        List.of(restored),
                        Files.createDirectories(folder.resolve(name + "-restore")));
        if (found.whole()) {
            engine = PartitionState.open(settings, shards, found.states().get(0));
            return;
        }
        engine = PartitionState.create(settings, shards, folder.resolve(name));
        for (Path state : found.states()) {
            engine.take(state, shards.getStartKeyGroup(), shards.getEndKeyGroup());
        }
    }

    /** Writes rows 0 to 599 to several files. */
    void fill() {
        int rows = 600 / FILES;
        for (int file = 0; file < FILES; file++) {
            upsert(file * rows, (file + 1) * rows, 1);
            engine.share().close();
        }
    }

    /** Writes rows with these ids; the shard of a row is its id modulo 128. */
    void upsert(int from, int to, long version) {
        VectorBatch batch = new VectorBatch(DIMENSION, to - from);
        for (int id = from; id < to; id++) {
            batch.upsert(id, version, id, id % 128, new float[] {id, version, 0, 0});
        }
        engine.write(batch.buffer(), batch.count());
    }

    /** Rows of the engine, as id and version. */
    Map<Long, Long> rows() {
        return rows(engine);
    }

    static Map<Long, Long> rows(NativeEngine engine) {
        QueryBatch queries = new QueryBatch(DIMENSION, 1);
        queries.add(1000, BufferLayout.EFFORT_EXACT, new float[DIMENSION]);
        AnswerBatch answers = new AnswerBatch();
        answers.search(engine, queries);
        answers.next();
        Map<Long, Long> rows = new TreeMap<>();
        for (int row = 0; row < answers.size(); row++) {
            rows.put(answers.id(row), answers.version(row));
        }
        return rows;
    }

    /** The task's part of a checkpoint, up to its end. */
    IncrementalRemoteKeyedStateHandle take(long id, SnapshotType type) throws Exception {
        var future = begin(id, type, streams(id));
        future.run();
        return (IncrementalRemoteKeyedStateHandle) future.get().getJobManagerOwnedSnapshot();
    }

    /** The part that the task does at the barrier. */
    RunnableFuture<SnapshotResult<KeyedStateHandle>> begin(
            long id, SnapshotType type, CheckpointStreamFactory streams) throws IOException {
        return begin(id, type, streams, engine.share());
    }

    RunnableFuture<SnapshotResult<KeyedStateHandle>> begin(
            long id, SnapshotType type, CheckpointStreamFactory streams, NativeState state)
            throws IOException {
        CheckpointOptions options =
                CheckpointOptions.alignedNoTimeout(
                        type, CheckpointStorageLocationReference.getDefault());
        return store.upload(new SegmentSnapshotStore.Target(id, options, streams, task), state);
    }

    /** A folder per checkpoint and one for all. */
    FsCheckpointStreamFactory streams(long id) throws IOException {
        Path own = Files.createDirectories(checkpoints.resolve("chk-" + id));
        return new FsCheckpointStreamFactory(
                LocalFileSystem.getSharedInstance(),
                new org.apache.flink.core.fs.Path(own.toUri()),
                new org.apache.flink.core.fs.Path(checkpoints.resolve("shared").toUri()),
                inlineBytes,
                1 << 12);
    }

    /** The JobManager completes a checkpoint and keeps the newest {@code keep}; nobody hears it. */
    void complete(IncrementalRemoteKeyedStateHandle handle, int keep) throws Exception {
        handle.registerSharedStates(registry, handle.getCheckpointId());
        retained.put(handle.getCheckpointId(), handle);
        while (retained.size() > keep) {
            var oldest = retained.pollFirstEntry().getValue();
            registry.unregisterUnusedState(retained.firstKey());
            oldest.discardState();
        }
    }

    /** The JobManager has a checkpoint whole, with the files of earlier ones that it names. */
    IncrementalRemoteKeyedStateHandle registered(IncrementalRemoteKeyedStateHandle handle) {
        handle.registerSharedStates(registry, handle.getCheckpointId());
        return handle;
    }

    /** As {@link #complete} with two kept, and the task hears it. */
    IncrementalRemoteKeyedStateHandle completed(IncrementalRemoteKeyedStateHandle handle)
            throws Exception {
        complete(handle, 2);
        store.completed(handle.getCheckpointId());
        return handle;
    }

    /** What a restore of {@code handle} holds. */
    static Map<Long, Long> restored(Path folder, KeyedStateHandle... handles) throws Exception {
        Path own = Files.createTempDirectory(folder, "restored-");
        try (CheckpointLab lab = new CheckpointLab(own, "engine", all(), handles)) {
            return lab.rows();
        }
    }

    static KeyGroupRange all() {
        return KeyGroupRange.of(0, 127);
    }

    /** Files that a checkpoint names but does not bring. */
    static long placeholders(IncrementalRemoteKeyedStateHandle handle) {
        return handle.getSharedState().stream()
                .map(HandleAndLocalPath::getHandle)
                .filter(PlaceholderStreamStateHandle.class::isInstance)
                .count();
    }

    /** Files in the checkpoint folders. */
    List<String> files() throws IOException {
        try (Stream<Path> walk = Files.walk(checkpoints)) {
            return new ArrayList<>(
                    walk.filter(Files::isRegularFile)
                            .map(path -> checkpoints.relativize(path).toString())
                            .sorted()
                            .toList());
        }
    }

    @Override
    public void close() throws IOException {
        task.close();
        store.close();
        engine.close();
    }
}
