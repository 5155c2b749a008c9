package io.vstream.flink.job;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.state.SmallUploads;
import java.time.Duration;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.state.rocksdb.RocksDBOptions;

/** Flink's settings for a job: checkpoints and restarts. */
final class FlinkSettings {

    /** Restarts of a job that ends by itself; a job on topics is restarted for ever. */
    private static final int RESTARTS = 3;

    private static final Duration RESTART_AFTER = Duration.ofSeconds(1);

    /** Memory of place and merge in one slot. The disk holds the rest of their state. */
    private static final MemorySize STATE_MEMORY = MemorySize.ofMebiBytes(64);

    private FlinkSettings() {}

    /**
     * Flink's configuration of one job.
     *
     * @param restore path of a checkpoint or savepoint to start from, or null
     */
    static Configuration of(JobSettings job, String restore) {
        Configuration flink = SearchDataflow.flinkSettings();
        flink.set(PipelineOptions.MAX_PARALLELISM, job.dataflow().keys().shards());
        if (job.checkpoint() == null) {
            flink.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        } else {
            checkpoints(flink, job.checkpoint());
            restarts(flink, job.unbounded());
        }
        if (restore != null) {
            flink.set(StateRecoveryOptions.SAVEPOINT_PATH, restore);
        }
        return flink;
    }

    private static void checkpoints(Configuration flink, JobSettings.Checkpoint checkpoint) {
        flink.set(
                CheckpointingOptions.CHECKPOINTING_INTERVAL,
                Duration.ofMillis(checkpoint.intervalMillis()));
        flink.set(
                CheckpointingOptions.CHECKPOINTING_TIMEOUT,
                Duration.ofMillis(checkpoint.timeoutMillis()));
        flink.set(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER, checkpoint.tolerableFailures());
        flink.set(
                CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE,
                CheckpointingMode.EXACTLY_ONCE);
        flink.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, FileSystems.uri(checkpoint.path()));
        flink.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        incrementalState(flink);
    }

    /**
     * Keeps the state of place and merge where a checkpoint writes what changed of it; that of
     * search does so by itself.
     *
     * <p>Its memory is outside of what Flink manages, so that it is the same on every cluster: see
     * {@link #STATE_MEMORY}.
     */
    static void incrementalState(Configuration flink) {
        flink.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        flink.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        flink.set(RocksDBOptions.FIX_PER_SLOT_MEMORY_SIZE, STATE_MEMORY);
        flink.set(RocksDBOptions.OPTIONS_FACTORY, SmallUploads.class.getName());
    }

    private static void restarts(Configuration flink, boolean unbounded) {
        if (unbounded) {
            // Brokers and machines come back: each failure in a row waits twice as long.
            flink.set(RestartStrategyOptions.RESTART_STRATEGY, "exponential-delay");
            flink.set(
                    RestartStrategyOptions.RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF,
                    RESTART_AFTER);
        } else {
            flink.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
            flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, RESTARTS);
            flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, RESTART_AFTER);
        }
    }
}
