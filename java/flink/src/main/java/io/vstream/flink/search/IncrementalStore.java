package io.vstream.flink.search;

import io.vstream.nativecore.NativeCapture;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.RunnableFuture;
import org.apache.flink.runtime.checkpoint.SnapshotType.SharingFilesStrategy;
import org.apache.flink.runtime.state.IncrementalKeyedStateHandle.HandleAndLocalPath;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StreamStateHandle;

/**
 * Names the files that an earlier checkpoint has and uploads the others. The JobManager counts who
 * names a file and deletes it after the last.
 *
 * <p>Each file is a shared state of an incremental handle under the path {@code FIRST-LAST/NAME},
 * the shards that it speaks of: a subtask of another parallelism takes only what it needs. The
 * manifest is the handle's metadata.
 *
 * <ul>
 *   <li><b>Only files of a checkpoint that is known to be complete are named.</b> Those of any
 *       other may be deleted by whoever finds that it failed.
 *   <li><b>Only if the newest copy is the known one.</b> A file that a later checkpoint uploaded
 *       again has two copies, and when that one completes, the JobManager deletes the first, maybe
 *       before we hear of it.
 *   <li><b>A file is named by a placeholder.</b> The discard of a failed checkpoint deletes every
 *       real handle in it.
 *   <li><b>A savepoint names nothing and is named by nothing</b>; so does the first checkpoint
 *       after a restore that leaves the old job its files name nothing.
 * </ul>
 */
final class IncrementalStore implements SegmentSnapshotStore {

    private final UUID engine = UUID.randomUUID();
    private final KeyGroupRange shards;

    /** Files by name, for each checkpoint that is complete or may become it. */
    private final SortedMap<Long, Map<String, StreamStateHandle>> uploaded = new TreeMap<>();

    private long newestComplete = -1;

    /**
     * @param shards that the subtask owns
     */
    IncrementalStore(KeyGroupRange shards) {
        this.shards = shards;
    }

    @Override
    public RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(
            Target target, NativeCapture state) throws IOException {
        SharingFilesStrategy sharing =
                target.options().getCheckpointType().getSharingFilesStrategy();
        Map<String, StreamStateHandle> known =
                sharing == SharingFilesStrategy.FORWARD_BACKWARD ? reusable() : Map.of();
        return new Upload(this, target, state, known).toAsyncSnapshotFutureTask(target.cancel());
    }

    @Override
    public void completed(long checkpointId) {
        synchronized (uploaded) {
            // Savepoints are not among them, and a late word of an older checkpoint says nothing.
            if (checkpointId > newestComplete && uploaded.containsKey(checkpointId)) {
                uploaded.headMap(checkpointId).clear();
                newestComplete = checkpointId;
            }
        }
    }

    @Override
    public void aborted(long checkpointId) {
        synchronized (uploaded) {
            if (checkpointId != newestComplete) {
                uploaded.remove(checkpointId);
            }
        }
    }

    @Override
    public List<Path> download(Collection<KeyedStateHandle> handles, Path into) throws IOException {
        List<Path> states = new ArrayList<>();
        for (KeyedStateHandle handle : handles) {
            if (!(handle instanceof IncrementalRemoteKeyedStateHandle state)) {
                throw new IOException(
                        "The checkpoint holds search state of another kind ("
                                + handle.getClass().getSimpleName()
                                + "); restore it with the version that wrote it.");
            }
            Path folder = Files.createDirectories(into.resolve("state-" + states.size()));
            download(state, folder);
            states.add(folder);
        }
        if (handles.size() == 1) {
            // The engine takes these files over, and names them in its states.
            remember((IncrementalRemoteKeyedStateHandle) handles.iterator().next());
        }
        return states;
    }

    /** Called when everything is uploaded; the checkpoint may be named once it is complete. */
    void note(Target target, Map<String, StreamStateHandle> files) {
        if (target.options().getCheckpointType().getSharingFilesStrategy()
                != SharingFilesStrategy.NO_SHARING) {
            synchronized (uploaded) {
                uploaded.put(target.id(), files);
            }
        }
    }

    /** Whose state it is, for the handle. */
    UUID engine() {
        return engine;
    }

    KeyGroupRange shards() {
        return shards;
    }

    /** The files of the newest complete checkpoint, less those that were uploaded again since. */
    private Map<String, StreamStateHandle> reusable() {
        synchronized (uploaded) {
            Map<String, StreamStateHandle> complete = uploaded.get(newestComplete);
            if (complete == null) {
                return Map.of();
            }
            Map<String, StreamStateHandle> reusable = new HashMap<>(complete);
            for (Map<String, StreamStateHandle> later :
                    uploaded.tailMap(newestComplete + 1).values()) {
                later.forEach(
                        (name, handle) ->
                                reusable.computeIfPresent(
                                        name, (n, known) -> same(known, handle) ? known : null));
            }
            return reusable;
        }
    }

    private static boolean same(StreamStateHandle a, StreamStateHandle b) {
        return a.getStreamStateHandleID().equals(b.getStreamStateHandleID());
    }

    private void remember(IncrementalRemoteKeyedStateHandle state) {
        Map<String, StreamStateHandle> files = new HashMap<>();
        for (HandleAndLocalPath file : state.getSharedState()) {
            files.put(SharedPath.of(file.getLocalPath()).name(), file.getHandle());
        }
        synchronized (uploaded) {
            uploaded.put(state.getCheckpointId(), files);
            newestComplete = state.getCheckpointId();
        }
    }

    private void download(IncrementalRemoteKeyedStateHandle state, Path folder) throws IOException {
        copy(state.getMetaDataStateHandle(), folder.resolve(NativeCapture.MANIFEST));
        List<HandleAndLocalPath> files = new ArrayList<>(state.getSharedState());
        files.addAll(state.getPrivateState());
        for (HandleAndLocalPath file : files) {
            SharedPath path = SharedPath.of(file.getLocalPath());
            if (path.concerns(shards)) {
                copy(file.getHandle(), folder.resolve(path.name()));
            }
        }
    }

    private static void copy(StreamStateHandle from, Path to) throws IOException {
        try (InputStream in = from.openInputStream()) {
            Files.copy(in, to);
        }
    }

    /**
     * The path of a file in a checkpoint.
     *
     * @param first shard that it speaks of
     * @param last shard that it speaks of
     * @param name of the file
     */
    record SharedPath(int first, int last, String name) {

        private static final java.util.regex.Pattern FORM =
                java.util.regex.Pattern.compile("(\\d{3})-(\\d{3})/([A-Za-z0-9_-][A-Za-z0-9._-]*)");

        /** Reads a path, which may come from anywhere: the name has no folder in it. */
        static SharedPath of(String path) throws IllegalArgumentException {
            var parts = FORM.matcher(path);
            if (!parts.matches()) {
                throw new IllegalArgumentException(
                        "'"
                                + path
                                + "' is no path of search state; the checkpoint was not written by"
                                + " VStream, or is damaged.");
            }
            return new SharedPath(
                    Integer.parseInt(parts.group(1)),
                    Integer.parseInt(parts.group(2)),
                    parts.group(3));
        }

        /** The path of a file. */
        static String of(NativeCapture.File file) {
            return String.format("%03d-%03d/%s", file.firstShard(), file.lastShard(), file.name());
        }

        /** True if a subtask with these shards needs the file. */
        boolean concerns(KeyGroupRange shards) {
            return first <= shards.getEndKeyGroup() && last >= shards.getStartKeyGroup();
        }
    }
}
