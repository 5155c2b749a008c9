package io.vstream.flink.search;

import io.vstream.nativecore.NativeState;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.RunnableFuture;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;

/**
 * Brings the files of an engine's states into checkpoints and back. All that is known of Flink's
 * handles is behind this. For the task thread, but for what {@link #upload} returns.
 */
interface SegmentSnapshotStore extends AutoCloseable {

    /**
     * One checkpoint or savepoint to write.
     *
     * @param id of the checkpoint
     * @param options its type says which files of others it may name
     * @param streams where to
     * @param cancel is closed when the task ends
     */
    record Target(
            long id,
            CheckpointOptions options,
            CheckpointStreamFactory streams,
            CloseableRegistry cancel) {}

    /**
     * Uploads the files of the state that the checkpoint may not name, later, in Flink's thread for
     * that, while the task goes on.
     *
     * <p>The returned future owns {@code state}: it closes it when it has run, failed or was
     * cancelled. Files that a failed or cancelled upload has begun are finished for the next one,
     * and deleted if that does not want them.
     */
    RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(Target target, NativeState state)
            throws IOException;

    /** The JobManager has the checkpoint: its files may be named by later ones. */
    void completed(long checkpointId);

    /** The checkpoint will never be. */
    void aborted(long checkpointId);

    /** The JobManager has dropped the checkpoint and all before it: nobody will restore them. */
    void subsumed(long checkpointId);

    /**
     * The states to restore.
     *
     * @param states folders, each with a state as {@link io.vstream.nativecore.NativeEngine#take}
     *     wants it for the subtask's shards; if it is whole, as {@link
     *     io.vstream.nativecore.NativeEngine#open} wants it, too
     * @param whole there is one, of exactly this subtask's shards: the engine may go on with it
     */
    record Restored(List<Path> states, boolean whole) {}

    /**
     * Copies the states that a checkpoint holds of this subtask's shards, and maybe of others.
     *
     * @param handles what Flink restores here
     * @param into an empty folder; receives a folder per state
     */
    Restored download(Collection<KeyedStateHandle> handles, Path into)
            throws IOException, InterruptedException;

    /** The engine has what it wants of a state of {@link #download}, which may be removed. */
    void endRestore(Path state);

    /**
     * Stops what is under way and deletes what no checkpoint has. What checkpoints name in a remote
     * level stays, so this comes before the end of the engine.
     */
    @Override
    void close();
}
