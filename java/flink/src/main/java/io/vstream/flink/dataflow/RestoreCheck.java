package io.vstream.flink.dataflow;

import io.vstream.flink.control.SampleGrants;
import java.io.DataInputStream;
import java.io.IOException;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.CompletedCheckpointStorageLocation;
import org.apache.flink.runtime.state.filesystem.AbstractFsCheckpointStorageAccess;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares a search with the checkpoint or savepoint that its program is to be restored from.
 *
 * <p>Shards are key groups, so a checkpoint says how many its collection had. Flink refuses another
 * number, too, but only after the job was submitted, and it speaks of maximum parallelisms.
 */
final class RestoreCheck {

    private static final Logger LOG = LoggerFactory.getLogger(RestoreCheck.class);

    private RestoreCheck() {}

    /**
     * Refuses a checkpoint of another number of shards. Does nothing if the program is not
     * restored, or if only the cluster can read the checkpoint. Cost: reads the checkpoint's
     * metadata.
     *
     * @param searchUid uid of the partitions
     * @param shards of the collection
     * @throws IllegalArgumentException with a sentence that has both numbers
     */
    static void refuseOtherShards(StreamExecutionEnvironment env, String searchUid, int shards) {
        String path = env.getConfiguration().get(StateRecoveryOptions.SAVEPOINT_PATH);
        if (path == null) {
            return;
        }
        int stored = shardsIn(path, SampleGrants.operatorOf(searchUid));
        if (stored > 0 && stored != shards) {
            throw new IllegalArgumentException(
                    "collection.shards: the checkpoint "
                            + path
                            + " is of a collection with "
                            + stored
                            + " shards, and the settings say "
                            + shards
                            + ". The number never changes: set it to "
                            + stored
                            + ", or let the job begin without the checkpoint and read its rows"
                            + " again.");
        }
    }

    /** Maximum parallelism of an operator in a checkpoint; 0 if it cannot be read from here. */
    private static int shardsIn(String path, OperatorID search) {
        try {
            CompletedCheckpointStorageLocation found =
                    AbstractFsCheckpointStorageAccess.resolveCheckpointPointer(path);
            try (DataInputStream in =
                    new DataInputStream(found.getMetadataHandle().openInputStream())) {
                CheckpointMetadata metadata =
                        Checkpoints.loadCheckpointMetadata(
                                in, RestoreCheck.class.getClassLoader(), path);
                return metadata.getOperatorStates().stream()
                        .filter(state -> state.getOperatorID().equals(search))
                        .mapToInt(OperatorState::getMaxParallelism)
                        .findFirst()
                        .orElse(0);
            }
        } catch (IOException e) {
            // Flink reads it again where the job runs, and says what is wrong with it.
            LOG.info("The checkpoint {} cannot be read here: {}", path, e.getMessage());
            return 0;
        }
    }
}
