package io.vstream.flink.job;

import com.sun.management.HotSpotDiagnosticMXBean;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.runtime.jobgraph.DistributionPattern;
import org.apache.flink.runtime.jobgraph.IntermediateDataSet;
import org.apache.flink.runtime.jobgraph.JobEdge;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;

/**
 * Memory of the buffers between the tasks of one job, all in one task manager.
 *
 * <p>A task cannot start without one buffer for each task that it sends to, one more for each step
 * that it sends to, and one for each step that it hears. Place, route and search send to all of the
 * next step, so the buffers grow with the square of the parallelism.
 */
final class NetworkMemory {

    /** Enough for 26 partitions, and what every job has had. */
    static final MemorySize LEAST = MemorySize.ofMebiBytes(96);

    /** Direct memory of the process beside these buffers: of engines, of files, of connections. */
    static final MemorySize BESIDE = MemorySize.ofMebiBytes(256);

    private static final long BUFFER_BYTES =
            TaskManagerOptions.MEMORY_SEGMENT_SIZE.defaultValue().getBytes();

    private static final long MIB = 1L << 20;

    private NetworkMemory() {}

    /**
     * What a job needs, and a quarter more, so that records need not wait for a buffer.
     *
     * @param directBytes direct memory that this process may have: see {@link #directBytes}
     * @throws IllegalArgumentException with a sentence if that is too little
     */
    static MemorySize of(JobGraph job, long directBytes) {
        long buffers = 0;
        int widest = 1;
        for (JobVertex step : job.getVertices()) {
            widest = Math.max(widest, step.getParallelism());
            long each = step.getInputs().size();
            for (IntermediateDataSet sent : step.getProducedDataSets()) {
                each += 1 + targets(step, sent);
            }
            buffers += step.getParallelism() * each;
        }
        MemorySize bytes =
                new MemorySize(Math.max(buffers * 5 / 4 * BUFFER_BYTES, LEAST.getBytes()));
        // A job that needs no more than every job has had may run in as little as it did.
        if (bytes.compareTo(LEAST) > 0 && bytes.add(BESIDE).getBytes() > directBytes) {
            throw new IllegalArgumentException(
                    "parallelism: a job of "
                            + widest
                            + " subtasks in a step needs "
                            + bytes.add(BESIDE).getBytes() / MIB
                            + " MiB of direct memory in one process, most of it for the buffers"
                            + " between its tasks, and this one may have "
                            + directBytes / MIB
                            + " MiB. Lower it, set -XX:MaxDirectMemorySize in VSTREAM_JAVA_OPTS, or"
                            + " run the job on a Flink cluster.");
        }
        return bytes;
    }

    /** Subtasks that one subtask of a step sends to. */
    private static long targets(JobVertex step, IntermediateDataSet sent) {
        long most = 0;
        for (JobEdge edge : sent.getConsumers()) {
            int next = edge.getTarget().getParallelism();
            boolean all = edge.getDistributionPattern() == DistributionPattern.ALL_TO_ALL;
            most =
                    Math.max(
                            most,
                            all
                                    ? next
                                    : (next + step.getParallelism() - 1) / step.getParallelism());
        }
        return most;
    }

    /**
     * Most direct memory of this process: what it was given, or as much as the heap where nothing
     * is set, and no more than the machine or container has beside the heap.
     */
    static long directBytes() {
        long heap = Runtime.getRuntime().maxMemory();
        long set =
                Long.parseLong(
                        ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class)
                                .getVMOption("MaxDirectMemorySize")
                                .getValue());
        long whole =
                ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class)
                        .getTotalMemorySize();
        return Math.min(set > 0 ? set : heap, Math.max(0, whole - heap));
    }
}
