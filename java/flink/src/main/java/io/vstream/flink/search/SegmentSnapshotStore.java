package io.vstream.flink.search;

import io.vstream.nativecore.NativeSnapshot;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.concurrent.RunnableFuture;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StateInitializationContext;

/**
 * Brings an engine's files into a checkpoint and back. One implementation copies everything each
 * time; an incremental one takes its place without a change elsewhere.
 */
interface SegmentSnapshotStore extends Serializable {

    /**
     * Writes the pinned rows to {@code directory} and uploads them, later, in Flink's thread for
     * that, while the task goes on.
     *
     * <p>The returned future owns rows and directory: it closes the one and deletes the other when
     * it has run, failed or was cancelled.
     *
     * @param shards that this subtask owns
     */
    RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(
            NativeSnapshot rows,
            Path directory,
            KeyGroupRange shards,
            CheckpointStreamFactory streams);

    /**
     * Writes the files of this subtask's shards to {@code directory}, which is empty.
     *
     * @return the number of shards found
     */
    int download(StateInitializationContext context, Path directory) throws IOException;
}
