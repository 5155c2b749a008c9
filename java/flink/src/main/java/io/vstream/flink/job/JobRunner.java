package io.vstream.flink.job;

import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.GeneratorScript;
import io.vstream.nativecore.EngineException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.FlinkException;

/**
 * Runs one job on a cluster inside this process and prints what happens as JSON lines on standard
 * output; warnings and errors go to standard error.
 *
 * <pre>
 * java JVM_FLAGS -cp 'lib/*' io.vstream.flink.job.JobRunner --job FILE [--restore CHECKPOINT]
 * </pre>
 *
 * <p>Checkpoints may lie on any file system that Flink has a plugin for: see {@link FileSystems}.
 *
 * <p>Recommended flags, which the {@code vstream} command sets:
 *
 * <ul>
 *   <li>{@code -Xms2g -Xmx2g} (or {@code jvm.heap} for both): vectors live outside the heap, which
 *       holds about 60 bytes per row for place. A heap of fixed size never pauses to grow.
 *   <li>{@code -XX:+UseZGC}: collects beside the job. The young collections of Parallel stopped all
 *       tasks for 50 to 80 ms every 25 s, at the same processor time in sum.
 *   <li>{@code -XX:MaxDirectMemorySize=1g}: network and native buffers; more from 79 partitions up,
 *       see {@link NetworkMemory}.
 *   <li>{@code -XX:-UsePerfData}: no file under /tmp that a slow disk could block a collection on.
 * </ul>
 *
 * <p>With {@code -Dvstream.command.pipe=true} a standard input that is a pipe is the command's:
 * once it has ended, the command is gone, and the job ends as on SIGTERM.
 *
 * <p>Exit codes: 0 the job ended, 1 it failed, 2 it was refused before it started, 143 it was
 * stopped.
 */
public final class JobRunner {

    private static final int EXIT_FAILED = 1;
    private static final int EXIT_REFUSED = 2;

    /** The same as of a process that SIGTERM ended. */
    private static final int EXIT_STOPPED = 143;

    private static final long POLL_MILLIS = 50;
    private static final long PROGRESS_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    /** Set by the command. */
    private static final String COMMAND_PIPE = "vstream.command.pipe";

    /** A task manager that was only out of touch is back before that. */
    private static final long LOST_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final JobSettings job;
    private final PrintStream out;
    private final String gateName = "gate-" + UUID.randomUUID();

    private JobRunner(JobSettings job, PrintStream out) {
        this.job = job;
        this.out = out;
    }

    /** See {@link JobRunner}. */
    public static void main(String[] arguments) {
        if (Boolean.getBoolean(COMMAND_PIPE) && CommandPipe.isStandardInput()) {
            CommandPipe.onEnd(System.in, JobRunner::stop);
        }
        System.exit(run(arguments, System.out, System.err));
    }

    private static void stop() {
        System.err.println(
                "vstream: the standard input is a pipe that has ended, so the command that started"
                        + " the job is gone: the job is stopped.");
        System.exit(EXIT_STOPPED);
    }

    /** Runs a job to its end; returns the exit code. */
    static int run(String[] arguments, PrintStream out, PrintStream err) {
        try {
            Arguments given = Arguments.of(arguments);
            String json = Files.readString(Path.of(given.job), StandardCharsets.UTF_8);
            return new JobRunner(JobSettings.fromJson(json), out).run(given.restore, err);
        } catch (IllegalArgumentException | EngineException e) {
            err.println("vstream: " + e.getMessage());
            return EXIT_REFUSED;
        } catch (IOException e) {
            err.println("vstream: cannot read or write a file: " + e.getMessage());
            return EXIT_REFUSED;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return EXIT_FAILED;
        } catch (Exception e) {
            err.println("vstream: the job failed: " + rootMessage(e));
            return EXIT_FAILED;
        }
    }

    private record Arguments(String job, String restore) {

        private static Arguments of(String[] words) {
            String job = null;
            String restore = null;
            for (int i = 0; i + 1 < words.length; i += 2) {
                switch (words[i]) {
                    case "--job" -> job = words[i + 1];
                    case "--restore" -> restore = words[i + 1];
                    default ->
                            throw new IllegalArgumentException(
                                    "Unknown option " + words[i] + "; use --job and --restore.");
                }
            }
            if (job == null || words.length % 2 != 0) {
                throw new IllegalArgumentException(
                        "Say which job to run: --job FILE [--restore CHECKPOINT].");
            }
            return new Arguments(job, restore);
        }
    }

    private int run(String from, PrintStream err) throws Exception {
        FileSystems.load(System.getenv());
        if (job.checkpoint() != null) {
            FileSystems.check("checkpoint.path", job.checkpoint().path());
        }
        String restore = from == null ? null : FileSystems.newest(from);
        Sources.checkBrokers(job);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, restore));
        VStreamJob.add(env, job, gateName);
        JobGraph graph = LocalCluster.graph(env, job.name());
        MemorySize network = NetworkMemory.of(graph, NetworkMemory.directBytes());
        FinalSnapshot.prepare(job.snapshotFolder());
        Gate gate = Gate.install(gateName);
        try (LocalCluster cluster = new LocalCluster(1, job.slots(), network)) {
            JobID id = cluster.submit(graph);
            Thread stop = new Thread(() -> cancel(cluster, id), "vstream-stop");
            Runtime.getRuntime().addShutdownHook(stop);
            JobResult result;
            try {
                watch(cluster, id, gate);
                result = cluster.await(id);
            } finally {
                removeHook(stop);
            }
            if (!result.isSuccess()) {
                if (result.getJobStatus().orElse(null) == JobStatus.CANCELED) {
                    return EXIT_FAILED;
                }
                result.getSerializedThrowable()
                        .ifPresent(e -> err.println("vstream: the job failed: " + rootMessage(e)));
                return EXIT_FAILED;
            }
            return publish(err);
        } finally {
            Gate.release(gateName);
        }
    }

    /** The job has ended, so what goes wrong here is not that it was refused. */
    private int publish(PrintStream err) {
        try {
            FinalSnapshot.publish(job.snapshotFolder());
            return 0;
        } catch (IOException e) {
            err.println("vstream: the job ended, and its snapshot is not in its place: " + e);
            return EXIT_FAILED;
        }
    }

    /** Prints progress, and opens the gate whenever the sources wait and all is applied. */
    private void watch(LocalCluster cluster, JobID id, Gate gate) throws Exception {
        ProgressReport report = new ProgressReport(cluster.metrics());
        QuietCheck quiet = new QuietCheck(cluster, id);
        boolean warmUp = job.workload().warmUpMillis() > 0;
        long printed = System.nanoTime();
        long whole = printed;
        long looked = printed;
        while (!cluster.status(id).isGloballyTerminalState()) {
            Thread.sleep(POLL_MILLIS);
            int round = gate.round();
            int stage = quiet.stage();
            if (stage >= 0) {
                if (!warmUp && stage == GeneratorScript.GATE_PRELOAD) {
                    if (job.vectors().generator()) {
                        report.leaveOutAnswers();
                    }
                    report.beginMeasured(job.vectors().generator());
                }
                gate.open(stage, round);
            }
            if (report.measuring() && warmUp) {
                report.beginMeasured(true);
            }
            if (System.nanoTime() - printed >= PROGRESS_NANOS) {
                printed += PROGRESS_NANOS;
                print(report);
                // By the clock: the next lines are printed one after the other after a pause.
                long now = System.nanoTime();
                if (now - looked > LOST_NANOS / 2 || !cluster.lacksTaskManagers()) {
                    whole = now;
                }
                looked = now;
                if (now - whole >= LOST_NANOS) {
                    throw new FlinkException(
                            "The part of this process that ran the tasks ended after an error that"
                                    + " it could not go on from; the log has it.");
                }
                if (job.checkpoint() != null && !job.unbounded() && quiet.sourcesEnded()) {
                    // The job waits for one more checkpoint: let it not wait for the interval.
                    cluster.checkpoint(id);
                }
            }
        }
        if (cluster.status(id) == JobStatus.FINISHED) {
            out.println(report.result());
            out.flush();
        }
    }

    private void print(ProgressReport report) {
        out.println(report.progress());
        String sample = report.sample();
        if (sample != null) {
            out.println(sample);
        }
        out.flush();
    }

    private void cancel(LocalCluster cluster, JobID id) {
        try {
            cluster.cancel(id);
            cluster.await(id);
            if (job.checkpoint() != null) {
                // The process may be gone before the JobManager removes rows on their way.
                FileSystems.delete(HandoverFolder.of(FileSystems.uri(job.checkpoint().path()), id));
            }
        } catch (Exception e) {
            // The process ends anyway; what the job left is overwritten by the next one.
            System.err.println("vstream: could not end the job cleanly: " + e.getMessage());
        }
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException e) {
            // The process is already ending, which is why the job has ended.
        }
    }

    /** The sentence of the first cause, which says what happened; a defect shows its trace. */
    private static String rootMessage(Throwable failure) {
        Throwable root = failure;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        return root.getMessage() != null && !(root instanceof RuntimeException)
                ? root.getMessage()
                : ExceptionUtils.stringifyException(failure);
    }
}
