package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.source.ScriptSource;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A job over isolated groups: written, changed and asked while a task manager goes, which restores
 * at another parallelism, and comes back, and while a task fails, which restores at the same one.
 * The largest group is spread over partitions while the stream goes on.
 */
@Timeout(240)
class GroupsIT {

    private static final long SEED = 20_261_123;
    private static final int BUILT_FOR = 3;

    @TempDir private Path folder;
    private final String name = UUID.randomUUID().toString();
    private final Mailboxes rows = new Mailboxes(SEED, new RecordLog(name), new Answers(name));

    @ParameterizedTest
    @ValueSource(ints = {128, 1_024})
    void groupsSurviveFailuresAtAnyParallelism(int shards) throws Exception {
        try (MiniCluster cluster = cluster(2)) {
            JobID job = cluster.submitJob(jobGraph(shards)).get().getJobID();
            rows.insert();
            rows.awaitSpread();
            // From then on its rows go to slices, and those that are there change their place.
            awaitCheckpoint(cluster, job);
            rows.check();
            rows.change(4_000);
            rows.check();

            awaitCheckpoint(cluster, job);
            FAIL.add(name);
            rows.askWhileSomethingHappens(() -> !FAIL.contains(name));
            rows.askWhileSomethingHappens(() -> runs(cluster, job, BUILT_FOR));
            rows.check();
            rows.change(2_000);
            rows.check();

            awaitCheckpoint(cluster, job);
            cluster.terminateTaskManager(1).get();
            rows.askWhileSomethingHappens(() -> runs(cluster, job, 2));
            rows.check();
            rows.change(2_000);
            rows.check();

            awaitCheckpoint(cluster, job);
            rows.dropLargest();
            cluster.startTaskManager();
            rows.askWhileSomethingHappens(() -> runs(cluster, job, BUILT_FOR));
            rows.check();
            rows.change(2_000);
            rows.check();
            rows.everythingWasAnswered();
            cluster.cancelJob(job).get();
        }
    }

    /** Waits for one that has begun after this call: what is applied now is in it. */
    private static void awaitCheckpoint(MiniCluster cluster, JobID job) throws Exception {
        long before = completed(cluster, job);
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (completed(cluster, job) < before + 2) {
            assertThat(System.nanoTime()).as("a checkpoint completes").isLessThan(end);
            Thread.sleep(20);
        }
    }

    private static long completed(MiniCluster cluster, JobID job) throws Exception {
        return cluster.getExecutionGraph(job)
                .get()
                .getCheckpointStatsSnapshot()
                .getCounts()
                .getNumberOfCompletedCheckpoints();
    }

    /** Names of tests whose job is to fail once, at the next answer. */
    private static final Set<String> FAIL = ConcurrentHashMap.newKeySet();

    private static Answer failing(String test, Answer answer) {
        if (FAIL.remove(test)) {
            throw new IllegalStateException("The test fails the job here.");
        }
        return answer;
    }

    private JobGraph jobGraph(int shards) {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(flink());
        DataStream<Incoming> records =
                env.fromSource(
                                new ScriptSource(new RecordLog(name), name),
                                WatermarkStrategy.noWatermarks(),
                                "log",
                                Incoming.TYPE)
                        .setParallelism(1)
                        .uid("log");
        String test = name;
        SearchDataflow.add(
                        env,
                        Mailboxes.settings(BUILT_FOR, shards).dataflow(),
                        new SearchDataflow.Inputs(records, null))
                .answers()
                .map(answer -> failing(test, answer))
                .returns(Answer.TYPE)
                .setParallelism(1)
                .sinkTo(new Answers(name))
                .setParallelism(1)
                .uid("answers");
        return env.getStreamGraph().getJobGraph();
    }

    private static MiniCluster cluster(int slots) throws Exception {
        Configuration flink = new Configuration();
        flink.set(JobManagerOptions.SCHEDULER, JobManagerOptions.SchedulerType.Adaptive);
        Duration soon = Duration.ofMillis(100);
        flink.set(JobManagerOptions.SCHEDULER_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT, soon);
        flink.set(JobManagerOptions.SCHEDULER_EXECUTING_COOLDOWN_AFTER_RESCALING, soon);
        flink.set(JobManagerOptions.SCHEDULER_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT, soon);
        flink.set(JobManagerOptions.SCHEDULER_RESCALE_TRIGGER_MAX_DELAY, Duration.ofSeconds(2));
        flink.set(RestOptions.BIND_PORT, "0");
        flink.set(RestOptions.BIND_ADDRESS, "127.0.0.1");
        flink.set(RestOptions.ADDRESS, "127.0.0.1");
        flink.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(96));
        flink.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(96));
        flink.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(8));
        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(flink)
                                .setNumTaskManagers(2)
                                .setNumSlotsPerTaskManager(slots)
                                .setRpcServiceSharing(RpcServiceSharing.SHARED)
                                .build());
        cluster.start();
        return cluster;
    }

    private Configuration flink() {
        Configuration flink = SearchDataflow.flinkSettings();
        FlinkSettings.incrementalState(flink);
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(200));
        flink.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        flink.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 100);
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(10));
        return flink;
    }

    /** True once search runs at that parallelism, all of its tasks. */
    private static boolean runs(MiniCluster cluster, JobID job, int parallelism) throws Exception {
        for (var vertex : cluster.getExecutionGraph(job).get().getVerticesTopologically()) {
            if (vertex.getName().equals("search")) {
                return vertex.getParallelism() == parallelism
                        && vertex.getAggregateState() == ExecutionState.RUNNING;
            }
        }
        return false;
    }
}
