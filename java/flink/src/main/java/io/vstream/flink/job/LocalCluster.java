package io.vstream.flink.job;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.metrics.InProcessReporter;
import io.vstream.flink.metrics.MetricsView;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A Flink cluster in this process, on loopback alone, and the metrics of what runs in it. */
public final class LocalCluster implements AutoCloseable {

    private static final String LOOPBACK = "127.0.0.1";
    private static final MemorySize MANAGED = MemorySize.ofMebiBytes(8);

    private final String name = "vstream-" + UUID.randomUUID();
    private final Configuration configuration;
    private final MetricsView metrics;
    private final MiniCluster cluster;
    private final int taskManagers;

    /**
     * Starts a cluster.
     *
     * @param taskManagers task managers; one is fastest, since its tasks share memory
     * @param slots slots of each
     */
    public LocalCluster(int taskManagers, int slots) throws Exception {
        this(taskManagers, slots, NetworkMemory.LEAST);
    }

    /** The same with that much memory in each for the buffers between tasks. */
    LocalCluster(int taskManagers, int slots, MemorySize network) throws Exception {
        this.taskManagers = taskManagers;
        configuration = SearchDataflow.flinkSettings();
        configuration.set(RestOptions.BIND_PORT, "0");
        configuration.set(RestOptions.BIND_ADDRESS, LOOPBACK);
        configuration.set(RestOptions.ADDRESS, LOOPBACK);
        configuration.set(JobManagerOptions.BIND_HOST, LOOPBACK);
        configuration.set(TaskManagerOptions.BIND_HOST, LOOPBACK);
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, network);
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, network);
        configuration.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MANAGED);
        metrics = InProcessReporter.install(configuration, name);
        cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(configuration)
                                .setNumTaskManagers(taskManagers)
                                .setNumSlotsPerTaskManager(slots)
                                .setRpcServiceSharing(RpcServiceSharing.SHARED)
                                .build());
        cluster.start();
    }

    /** Metrics of the job; one job per cluster. */
    public MetricsView metrics() {
        return metrics;
    }

    /** Starts the job that {@code env} describes. */
    public JobID submit(StreamExecutionEnvironment env, String jobName) throws Exception {
        return submit(graph(env, jobName));
    }

    /** Starts a job. */
    JobID submit(JobGraph job) throws Exception {
        return cluster.submitJob(job).get().getJobID();
    }

    /** The job that {@code env} describes. */
    static JobGraph graph(StreamExecutionEnvironment env, String jobName) {
        var graph = env.getStreamGraph();
        graph.setJobName(jobName);
        return graph.getJobGraph();
    }

    /** True if fewer task managers are there than were started. */
    boolean lacksTaskManagers() throws Exception {
        return cluster.requestClusterOverview().get().getNumTaskManagersConnected() < taskManagers;
    }

    /** Ends a task manager as a fatal error of its own would. */
    void endTaskManager(int number) throws Exception {
        cluster.terminateTaskManager(number).get();
    }

    /** State of a job. */
    public JobStatus status(JobID job) throws Exception {
        return cluster.getJobStatus(job).get();
    }

    /** True if every task of a job runs: before that, no checkpoint can be taken. */
    public boolean running(JobID job) throws Exception {
        for (var task : cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
            if (task.getExecutionState() != ExecutionState.RUNNING) {
                return false;
            }
        }
        return true;
    }

    /**
     * The attempt that a job is in, once every task of it runs or has ended; -1 before that. Its
     * tasks are all connected, so a restart is one of them all.
     */
    int attempt(JobID job) throws Exception {
        int attempt = -1;
        for (var task : cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
            ExecutionState state = task.getExecutionState();
            int own = task.getCurrentExecutionAttempt().getAttemptNumber();
            boolean begun = state == ExecutionState.RUNNING || state == ExecutionState.FINISHED;
            if (!begun || (attempt >= 0 && own != attempt)) {
                return -1;
            }
            attempt = own;
        }
        return attempt;
    }

    /** Waits for the end of a job. */
    public JobResult await(JobID job) throws Exception {
        return cluster.requestJobResult(job).get();
    }

    /** Ends a job at a savepoint, which any state backend reads, and returns where it is. */
    public String stop(JobID job, String folder) throws Exception {
        return cluster.stopWithSavepoint(job, folder, false, SavepointFormatType.CANONICAL).get();
    }

    /** Asks for a checkpoint now; what comes of it is where it is. */
    public CompletableFuture<String> checkpoint(JobID job) {
        return cluster.triggerCheckpoint(job);
    }

    /** Sizes and times of a job's checkpoints. */
    public CheckpointStatsSnapshot checkpoints(JobID job) throws Exception {
        return cluster.getExecutionGraph(job).get().getCheckpointStatsSnapshot();
    }

    /** Ends a job at once. */
    public void cancel(JobID job) throws Exception {
        cluster.cancelJob(job).get();
    }

    @Override
    public void close() {
        InProcessReporter.release(name);
        cluster.closeAsync().join();
    }
}
