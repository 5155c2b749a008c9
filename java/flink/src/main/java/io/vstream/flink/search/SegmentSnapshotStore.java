package io.vstream.flink.search;

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
     * Uploads what the engine wrote to {@code directory}, later, in Flink's thread for that.
     *
     * <p>The returned future owns the directory: it deletes it when it has run, failed or was
     * cancelled. The files do not change meanwhile.
     *
     * @param shards that this subtask owns
     */
    RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(
            Path directory, KeyGroupRange shards, CheckpointStreamFactory streams);

    /**
     * Writes the files of this subtask's shards to {@code directory}, which is empty.
     *
     * @return the number of shards found
     */
    int download(StateInitializationContext context, Path directory) throws IOException;
}
