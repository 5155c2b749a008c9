package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.search.Folders;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.ScriptSource;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints and savepoints of the whole job, on two task managers. */
class CheckpointIT {

    private static final long SEED = 20260111;
    private static final int WRITES = 6_000;

    /** The least memory that a partition may have. */
    private static final long LITTLE = 1 << 16;

    @TempDir private Path folder;

    @ParameterizedTest
    @ValueSource(longs = {0, LITTLE})
    void rescalesUpAndDownOneAfterTheOtherLoseNothing(long memory) throws Exception {
        WriteScript script =
                new WriteScript(SEED, 600, WRITES, 40, 50_000, 1_000, 2_000, 3_000, 4_000, WRITES);
        String at = new Scenario(script, folder).withMemory(memory).stopAt(1, 2);
        at = new Scenario(script, folder).withMemory(memory).from(at).stopAt(2, 4);
        at = new Scenario(script, folder).withMemory(memory).from(at).stopAt(3, 1);
        // With a limit and without: either goes on from the other.
        assertThat(new Scenario(script, folder).withMemory(LITTLE - memory).from(at).differences(3))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @ParameterizedTest
    @EnumSource(names = {"CLAIM", "NO_CLAIM"})
    void aCheckpointRestoresInBothClaimModesAtAnotherParallelism(RecoveryClaimMode mode)
            throws Exception {
        Path first = folder.resolve("first");
        Path second = folder.resolve("second");
        // Paced, so that checkpoints complete before the failure.
        WriteScript script =
                new WriteScript(SEED + 1, 600, WRITES, 40, 4_000, 1_000, 1_500, 2_500, WRITES);
        String at = new Scenario(script, first).cancelAt(1, 2);
        at = new Scenario(script, second).from(at, mode).cancelAt(2, 4);
        if (mode == RecoveryClaimMode.NO_CLAIM) {
            // The second job has a completed checkpoint of its own: nothing of the first is needed.
            Folders.delete(first);
        }
        Path third = folder.resolve("third");
        assertThat(new Scenario(script, third).from(at, mode).failingAfter(1_000).differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @Test
    void aCollectionOfMoreShardsGoesOnAtAnotherParallelismAndWithNoOtherNumber() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 2, 600, WRITES, 40, 50_000, 1_000, 3_000, WRITES);
        String at = new Scenario(script, folder).withShards(1_024).stopAt(1, 2);
        assertThatThrownBy(() -> new Scenario(script, folder).from(at).differences(2))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("collection.shards: the checkpoint ")
                .hasMessageContaining(
                        "is of a collection with 1024 shards, and the settings say 128");
        assertThat(new Scenario(script, folder).withShards(1_024).from(at).differences(3))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 2 << 20})
    void whatCheckpointsUploadFollowsTheChange(long memory) throws Exception {
        UpdateScript script = new UpdateScript(128, 30_000, 300, 20);
        List<CompletedCheckpointStats> checkpoints = checkpointEveryRound(script, memory);
        CompletedCheckpointStats last = checkpoints.get(checkpoints.size() - 1);
        assertThat(checkpoints).hasSize(21);
        double uploaded =
                checkpoints.subList(1, checkpoints.size()).stream()
                        .mapToLong(CompletedCheckpointStats::getCheckpointedSize)
                        .average()
                        .orElseThrow();
        // One per cent of the rows changes between two checkpoints. With a limit to memory, merges
        // of what was loaded at first fall among these, one of all rows too: 0.1 was measured.
        double most = memory == 0 ? 0.05 : 0.125;
        assertThat(uploaded / last.getStateSize())
                .as("%,.0f bytes of %,d", uploaded, last.getStateSize())
                .isBetween(0.01, most);
        assertThat(last.getStateSize()).isLessThan(2L * 30_000 * 128 * Float.BYTES);
    }

    @Test
    void unalignedCheckpointsAreRefusedWithASentence() {
        Configuration flink = SearchDataflow.flinkSettings();
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(1));
        flink.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(flink);
        assertThatThrownBy(() -> SearchDataflow.add(env, settings(0).dataflow(), null))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("Set execution.checkpointing.unaligned to false.");
    }

    /** A checkpoint before each round and after the last, when everything is applied. */
    private List<CompletedCheckpointStats> checkpointEveryRound(UpdateScript script, long memory)
            throws Exception {
        String name = UUID.randomUUID().toString();
        Gate gate = Gate.install(name);
        Configuration flink = SearchDataflow.flinkSettings();
        FlinkSettings.incrementalState(flink);
        flink.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        // Enabled, and never by itself.
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofDays(1));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(flink);
        DataStream<Incoming> records =
                env.fromSource(
                                new ScriptSource(script, name),
                                WatermarkStrategy.noWatermarks(),
                                "script",
                                Incoming.TYPE)
                        .setParallelism(1);
        SearchDataflow.add(
                        env, settings(memory).dataflow(), new SearchDataflow.Inputs(records, null))
                .answers()
                .sinkTo(new Answers(name));
        List<CompletedCheckpointStats> checkpoints = new ArrayList<>();
        try (LocalCluster cluster = new LocalCluster(2, 1)) {
            JobID job = cluster.submit(env, name);
            QuietCheck quiet = new QuietCheck(cluster, job);
            for (int round = 0; round <= script.rounds(); round++) {
                while (quiet.stage() != round || !cluster.running(job)) {
                    assertThat(cluster.status(job).isGloballyTerminalState()).isFalse();
                    Thread.sleep(5);
                }
                cluster.checkpoint(job).get();
                checkpoints.add(
                        cluster.checkpoints(job).getHistory().getLatestCompletedCheckpoint());
                gate.open(round);
            }
            cluster.await(job);
        } finally {
            Gate.release(name);
        }
        return checkpoints;
    }

    private static JobSettings settings(long memory) {
        return JobSettings.fromJson(
                """
                {"parallelism": 2,
                 "collection": {"dimension": 128, "metric": "l2", "element": "f32",
                                "index": "flat", "seed": 7, "encoder": {"kind": "id"},
                                "memory": %s},
                 "vectors": {"kind": "file", "path": "script"},
                 "queries": {"kind": "file", "path": "script", "k": 5}}
                """
                        .formatted(memory == 0 ? "null" : memory));
    }
}
