package io.vstream.flink.search;

import io.vstream.flink.fault.Fault;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.NativeState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.concurrent.RunnableFuture;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * The engine of one partition and its files: restored when the subtask begins, shared at every
 * barrier, gone with the subtask. The folder's name is new for every attempt, so nothing that an
 * attempt leaves is ever read.
 */
final class PartitionState implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final PartitionSettings settings;
    private final KeyGroupRange shards;
    private final Path folder;
    private final IncrementalStore store;
    private NativeEngine engine;
    private volatile boolean closed;

    /**
     * @param shards that the subtask owns
     * @param parent where the private folder is made
     */
    PartitionState(PartitionSettings settings, KeyGroupRange shards, int partition, Path parent)
            throws IOException {
        this.settings = settings;
        this.shards = shards;
        Files.createDirectories(parent);
        folder = Files.createTempDirectory(parent, "partition-" + partition + "-");
        this.store =
                new IncrementalStore(
                        shards, remembersDeletes(settings.collection()), folder.resolve("brought"));
    }

    private static boolean remembersDeletes(String collection) throws IOException {
        return JSON.readTree(collection).hasNonNull("deletes-remembered");
    }

    /** Opens the engine with what the handles hold; empty if there are none. */
    void restore(Collection<KeyedStateHandle> handles) throws IOException, InterruptedException {
        Path into = folder.resolve("restored");
        SegmentSnapshotStore.Restored restored = store.download(handles, into);
        engine = InterruptibleRestore.run("vstream-restore", () -> engine(restored), this::abandon);
        store.whenClaimed(engine::inheritRemote);
    }

    private NativeEngine engine(SegmentSnapshotStore.Restored restored) throws IOException {
        boolean forget = settings.faults().contains(Fault.FORGET_SHARDS_ON_RESTORE);
        if (restored.whole() && !forget) {
            return open(settings.collection(), shards, restored.states().get(0));
        }
        int first = shards.getStartKeyGroup();
        int wanted = forget ? (first + shards.getEndKeyGroup()) / 2 + 1 : first;
        NativeEngine made = create(settings.collection(), shards, folder.resolve("engine"));
        try {
            for (Path state : restored.states()) {
                if (closed) {
                    throw new IOException("The restore was given up.");
                }
                made.take(state, wanted, shards.getEndKeyGroup());
                // The rows of several states need not lie here twice.
                store.endRestore(state);
                Folders.delete(state);
            }
            return made;
        } catch (IOException | RuntimeException e) {
            made.close();
            throw e;
        }
    }

    /** Removes what a restore made that nobody waits for any more. */
    private void abandon(NativeEngine made) {
        if (made != null) {
            made.close();
        }
        Folders.delete(folder);
    }

    /** An engine of these shards in the folder of a state that is exactly theirs. */
    static NativeEngine open(String collection, KeyGroupRange shards, Path state) {
        return NativeEngine.open(
                collection, state, shards.getStartKeyGroup(), shards.getEndKeyGroup());
    }

    /** An empty engine of these shards in a folder. */
    static NativeEngine create(String collection, KeyGroupRange shards, Path home) {
        return NativeEngine.createIn(
                collection, home, shards.getStartKeyGroup(), shards.getEndKeyGroup());
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
        NativeState state = engine.share();
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

    /** See {@link SegmentSnapshotStore#subsumed}. */
    void subsumed(long checkpointId) {
        store.subsumed(checkpointId);
    }

    @Override
    public void close() {
        closed = true;
        store.close();
        if (engine != null) {
            engine.close();
        }
        Folders.delete(folder);
    }
}
