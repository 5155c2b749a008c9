package io.vstream.flink.search;

import io.vstream.nativecore.NativeState;
import java.io.IOException;
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
import java.util.regex.Pattern;
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
 * <p>Each file is a shared state of an incremental handle; its path there is the key of its content
 * ({@link NativeState.File#key}), in which its name is. The manifest is the handle's metadata.
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
 *
 * <p>Rows in a remote level are not uploaded: small files of the state say where they are. The
 * JobManager knows nothing of that, so the engine keeps there what a checkpoint names:
 *
 * <ul>
 *   <li><b>The state of a checkpoint stays open until it or a later one is dropped</b>, even if it
 *       was given up.
 *   <li><b>At the end of the task nothing is deleted there</b>: the next attempt reads it.
 *   <li><b>What the attempt before left there is deleted only</b> by a task that went on with
 *       exactly its state, once the checkpoint that it came from is dropped, and unless that is
 *       left to another job.
 * </ul>
 */
final class IncrementalStore implements SegmentSnapshotStore {

    private static final long NONE = -1;

    private static final Pattern KEY =
            Pattern.compile("[0-9a-f]{16}\\.([a-z]+-\\d{10}(?:\\.[A-Za-z0-9-]+)*)\\.[0-9a-f]{16}");

    /** A file with the rows of one shard. */
    private static final Pattern ROWS = Pattern.compile("base-\\d{10}\\.shard-(\\d+)\\.rows");

    /** A segment, of which each subtask that gets some of its shards wants the whole file. */
    private static final Pattern SEGMENT = Pattern.compile("segment-\\d{10}");

    private final UUID engine = UUID.randomUUID();
    private final KeyGroupRange shards;
    private final boolean wantsAll;

    /** Files by key, for each checkpoint that is complete or may become it. */
    private final SortedMap<Long, Map<String, StreamStateHandle>> uploaded = new TreeMap<>();

    /** States that lead to a remote level, for each checkpoint that may be restored. */
    private final SortedMap<Long, FileTransfers.Pin> kept = new TreeMap<>();

    private final FileTransfers transfers;
    private long newestComplete = -1;

    /** The checkpoint that this task alone goes on with, if what it left may become the task's. */
    private long claimed = NONE;

    private Runnable inherit = () -> {};
    private boolean closed;

    /**
     * @param shards that the subtask owns
     * @param wantsAll true if the engine takes more from a state than the rows of its shards, which
     *     are the deletes that it remembers
     * @param brought folder for files on their way from a remote level into a savepoint
     */
    IncrementalStore(KeyGroupRange shards, boolean wantsAll, Path brought) {
        this.shards = shards;
        this.wantsAll = wantsAll;
        transfers = new FileTransfers("vstream-copy-" + shards.getStartKeyGroup(), brought);
    }

    /** Sets what makes the engine the owner of what the attempt before left in the remote level. */
    void whenClaimed(Runnable inherits) {
        synchronized (uploaded) {
            inherit = inherits;
        }
    }

    @Override
    public RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(Target target, NativeState state)
            throws IOException {
        SharingFilesStrategy sharing =
                target.options().getCheckpointType().getSharingFilesStrategy();
        Map<String, StreamStateHandle> known =
                sharing == SharingFilesStrategy.FORWARD_BACKWARD ? reusable() : Map.of();
        if (sharing == SharingFilesStrategy.FORWARD) {
            // The restored checkpoint stays with the job that made it.
            synchronized (uploaded) {
                claimed = NONE;
            }
        }
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
        // Its state is kept: a JobManager that fails while it completes a checkpoint may call it
        // given up and restore it yet.
        synchronized (uploaded) {
            if (checkpointId != newestComplete) {
                uploaded.remove(checkpointId);
            }
        }
    }

    @Override
    public void subsumed(long checkpointId) {
        List<FileTransfers.Pin> unwanted;
        synchronized (uploaded) {
            SortedMap<Long, FileTransfers.Pin> dropped = kept.headMap(checkpointId + 1);
            unwanted = new ArrayList<>(dropped.values());
            dropped.clear();
            if (claimed != NONE && claimed <= checkpointId && !closed) {
                claimed = NONE;
                inherit.run();
            }
        }
        unwanted.forEach(FileTransfers.Pin::release);
    }

    /** Keeps a state until its checkpoint or a later one is dropped; releases it then. */
    void keep(Target target, FileTransfers.Pin pin) {
        synchronized (uploaded) {
            if (!closed) {
                kept.put(target.id(), pin);
                return;
            }
        }
        abandon(pin);
    }

    private static void abandon(FileTransfers.Pin pin) {
        pin.state().endDeletes();
        pin.release();
    }

    @Override
    public Restored download(Collection<KeyedStateHandle> handles, Path into)
            throws IOException, InterruptedException {
        List<Path> states = new ArrayList<>();
        boolean whole = false;
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
            whole = handles.size() == 1 && state.getKeyGroupRange().equals(shards);
            if (whole) {
                // The engine goes on with these files, and its states name them.
                remember(state);
            }
        }
        return new Restored(states, whole);
    }

    @Override
    public void endRestore(Path state) {
        transfers.forgetShared(state);
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

    /** Id of the engine, for the handle. */
    UUID engine() {
        return engine;
    }

    KeyGroupRange shards() {
        return shards;
    }

    FileTransfers transfers() {
        return transfers;
    }

    @Override
    public void close() {
        List<FileTransfers.Pin> pins;
        synchronized (uploaded) {
            closed = true;
            pins = new ArrayList<>(kept.values());
            kept.clear();
        }
        pins.forEach(IncrementalStore::abandon);
        transfers.close();
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
            files.put(file.getLocalPath(), file.getHandle());
        }
        synchronized (uploaded) {
            uploaded.put(state.getCheckpointId(), files);
            newestComplete = state.getCheckpointId();
            claimed = state.getCheckpointId();
        }
    }

    private void download(IncrementalRemoteKeyedStateHandle state, Path folder)
            throws IOException, InterruptedException {
        Map<Path, StreamStateHandle> copies = new HashMap<>();
        copies.put(folder.resolve(NativeState.MANIFEST), state.getMetaDataStateHandle());
        List<HandleAndLocalPath> files = new ArrayList<>(state.getSharedState());
        files.addAll(state.getPrivateState());
        for (HandleAndLocalPath file : files) {
            String name = nameIn(file.getLocalPath());
            if (isWanted(name)) {
                copies.put(folder.resolve(name), file.getHandle());
            }
        }
        // Segments are never written again; what goes on with the others may append to them.
        transfers.download(
                copies, path -> SEGMENT.matcher(path.getFileName().toString()).matches());
    }

    /** False for the rows of a shard of another subtask, which the engine will not ask for. */
    private boolean isWanted(String name) {
        var parts = ROWS.matcher(name);
        return wantsAll || !parts.matches() || shards.contains(Integer.parseInt(parts.group(1)));
    }

    /** The name in a key, which may come from anywhere: there is no folder in it. */
    private static String nameIn(String key) throws IOException {
        var parts = KEY.matcher(key);
        if (!parts.matches()) {
            throw new IOException(
                    "'"
                            + key
                            + "' is no file of search state as this version keeps it; restore the"
                            + " checkpoint with the version that wrote it, if it is not damaged.");
        }
        return parts.group(1);
    }
}
