package io.vstream.flink.search;

import io.vstream.nativecore.NativeCapture;
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
interface SegmentSnapshotStore {

    /**
     * What is asked of one checkpoint or savepoint.
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
     * Writes what is missing of the state and uploads what the checkpoint may not name, later, in
     * Flink's thread for that, while the task goes on.
     *
     * <p>The returned future owns {@code state}: it closes it when it has run, failed or was
     * cancelled. What a failed or cancelled upload wrote, it deletes.
     */
    RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(Target target, NativeCapture state)
            throws IOException;

    /** The JobManager has the checkpoint: its files may be named by later ones. */
    void completed(long checkpointId);

    /** The checkpoint will never be. */
    void aborted(long checkpointId);

    /**
     * Copies the states that a checkpoint holds, as far as they concern this subtask.
     *
     * @param handles what Flink restores here
     * @param into an empty folder; receives a folder per state, as {@link
     *     io.vstream.nativecore.NativeEngine#assemble} takes them
     * @return those folders
     */
    List<Path> download(Collection<KeyedStateHandle> handles, Path into) throws IOException;
}
