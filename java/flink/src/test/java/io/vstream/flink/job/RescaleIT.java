package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.source.ScriptSource;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;
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
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The job at another parallelism than it was built for. The adaptive scheduler does that by itself
 * after the loss of a task manager, and an autoscaler does it step by step: rows that an update
 * moves between shards must be found once, by exact queries and by others, and every query must be
 * answered.
 */
@Timeout(240)
class RescaleIT {

    private static final long SEED = 20_260_417;
    private static final int BUILT_FOR = 4;

    @TempDir private Path folder;
    private final String name = UUID.randomUUID().toString();
    private final MovingRows rows = new MovingRows(SEED, new RecordLog(name), new Answers(name));

    @Test
    void slotsGoAndComeBack() throws Exception {
        try (MiniCluster cluster = cluster(BUILT_FOR / 2)) {
            JobID job = cluster.submitJob(jobGraph()).get().getJobID();
            rows.insert();
            rows.awaitTemplate(BUILT_FOR);
            rows.update(2_000);
            rows.check();

            cluster.terminateTaskManager(1).get();
            rows.askWhileSomethingHappens(() -> runs(cluster, job, BUILT_FOR / 2));
            rows.check();
            rows.update(3_000);
            rows.check();

            cluster.startTaskManager();
            rows.askWhileSomethingHappens(() -> runs(cluster, job, BUILT_FOR));
            rows.check();
            rows.update(3_000);
            rows.check();
            rows.everythingWasAnswered();
            cluster.cancelJob(job).get();
        }
    }

    @ParameterizedTest
    @CsvSource({"1, 1, 1", "2, 2, 2", "4, 4, 8", "3, 1, 5", "1, 3, 2"})
    void stepsRunAtAnyParallelism(int place, int route, int search) throws Exception {
        JobGraph graph = jobGraph();
        override(graph, Map.of("place", place, "route", route, "search", search));
        try (MiniCluster cluster = cluster(BUILT_FOR)) {
            JobID job = cluster.submitJob(graph).get().getJobID();
            rows.insert();
            rows.awaitTemplate(search);
            rows.update(3_000);
            rows.check();
            rows.everythingWasAnswered();
            assertThat(runs(cluster, job, search)).isTrue();
            cluster.cancelJob(job).get();
        }
    }

    private static void override(JobGraph graph, Map<String, Integer> parallelism) {
        int found = 0;
        for (JobVertex vertex : graph.getVertices()) {
            Integer wanted = parallelism.get(vertex.getName());
            if (wanted != null) {
                vertex.setParallelism(wanted);
                found++;
            }
        }
        assertThat(found).isEqualTo(parallelism.size());
    }

    private JobGraph jobGraph() {
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
        SearchDataflow.add(
                        env,
                        MovingRows.settings(BUILT_FOR).dataflow(),
                        new SearchDataflow.Inputs(records, null))
                .answers()
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
