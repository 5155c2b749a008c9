package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.sink.AnswerFile;
import io.vstream.flink.source.DataFiles;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.LineScript;
import io.vstream.flink.source.ScriptSource;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs over files that are stopped, fail or are wide. */
@Timeout(180)
class FileJobIT {

    private static final int ROWS = 300;

    /** So many that several checkpoints begin and complete while they are answered. */
    private static final int QUERIES = 60_000;

    @TempDir private Path folder;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();
    private Path vectors;
    private Path queries;
    private Path answers;

    @BeforeEach
    void names() {
        vectors = folder.resolve("vectors.jsonl");
        queries = folder.resolve("queries.jsonl");
        answers = folder.resolve("answers.jsonl");
    }

    /**
     * A checkpoint that was taken once the vectors had been read does not run their source again,
     * nor place. The queries waited for both of them for ever.
     */
    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void aJobGoesOnFromACheckpointAfterItsVectorsHadEnded(int parallelism) throws Exception {
        write(QUERIES);
        Thread first = new Thread(() -> run(job(2, answers)), "first");
        first.start();
        // A checkpoint that begins after an answer has no source of vectors. The next that is
        // complete may have begun before, the one after it has not.
        while (!Files.exists(answers) || Files.size(answers) == 0) {
            assertThat(first.isAlive()).as(err.toString()).isTrue();
            Thread.sleep(20);
        }
        int enough = number() + 2;
        while (number() < enough) {
            assertThat(first.isAlive()).as(err.toString()).isTrue();
            Thread.sleep(20);
        }
        first.interrupt();
        first.join();
        assertThat(out.toString()).doesNotContain("\"type\":\"result\"");

        assertThat(run(job(parallelism, answers), "--restore", newest().toString()))
                .as(err.toString())
                .isZero();
        everyQueryIsAnsweredOnce(QUERIES);
    }

    /** The same where Flink restarts the job by itself. */
    @Test
    void aJobGoesOnAfterAFailureWhenItsVectorsHadEnded() throws Exception {
        write(10_000);
        JobSettings job = JobSettings.fromJson(job(2, answers));
        String name = UUID.randomUUID().toString();
        Gate gate = Gate.install(name);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
        DataStream<Incoming> asked =
                source(env, name, queries, true)
                        .map(new FailLate(name))
                        .returns(Incoming.TYPE)
                        .setParallelism(1);
        SearchDataflow.Inputs inputs =
                new SearchDataflow.Inputs(source(env, name, vectors, false), asked);
        SearchDataflow.add(env, job.dataflow(), inputs)
                .answers()
                .sinkTo(new AnswerFile(answers.toString()))
                .setParallelism(1);
        try (LocalCluster cluster = new LocalCluster(1, 2)) {
            JobID id = cluster.submit(env, name);
            QuietCheck quiet = new QuietCheck(cluster, id);
            while (!cluster.status(id).isGloballyTerminalState()) {
                int round = gate.round();
                int stage = quiet.stage();
                if (stage >= 0) {
                    gate.open(stage, round);
                }
                if (quiet.sourcesEnded()) {
                    cluster.checkpoint(id);
                }
                Thread.sleep(50);
            }
            assertThat(cluster.status(id)).isEqualTo(JobStatus.FINISHED);
            assertThat(cluster.metrics().attempts()).isEqualTo(2);
            // Nobody placed a row in the second attempt.
            assertThat(cluster.metrics().ofAttempt(1).others(Names.PLACED, -1)).isZero();
        } finally {
            Gate.release(name);
        }
        everyQueryIsAnsweredOnce(10_000);
    }

    /** Flink ended the task manager, and the job stood still. */
    @Test
    void anAnswersFileOnAFullDiskEndsTheJobWithItsName() throws Exception {
        Path full = Path.of("/dev/full");
        assumeTrue(Files.exists(full));
        write(100);
        assertThat(run(job(1, full))).isEqualTo(1);
        assertThat(err.toString()).contains("The answers cannot be written to /dev/full");
    }

    /** The buffers of a job with few partitions do for 31. */
    @Test
    void aJobHasBuffersForItsParallelism() throws Exception {
        write(20);
        assertThat(run(job(33, answers))).as(err.toString()).isZero();
        everyQueryIsAnsweredOnce(20);
    }

    @Test
    void aClusterKnowsThatItsTaskManagerIsGone() throws Exception {
        try (LocalCluster cluster = new LocalCluster(1, 1)) {
            while (cluster.lacksTaskManagers()) {
                Thread.sleep(20);
            }
            cluster.endTaskManager(0);
            while (!cluster.lacksTaskManagers()) {
                Thread.sleep(20);
            }
        }
    }

    /** A command that is killed cannot end its job, which went on by itself. */
    @Test
    void aJobEndsWithTheCommandThatHoldsItsPipe() throws Exception {
        Path rows = DataFiles.floats(folder, "base", 1_000, 2);
        String endless =
                """
                {"name": "endless", "parallelism": 1, "training-sample": 500,
                 "collection": {"dimension": 2, "metric": "l2", "element": "f32",
                                "index": "flat", "seed": 1, "encoder": {"kind": "id"}},
                 "vectors": {"kind": "generator", "path": "%s", "preload": 100},
                 "workload": {"rate": 100}}
                """
                        .formatted(rows);
        Path log = folder.resolve("log");
        Process job = start(endless, log, ProcessBuilder.Redirect.PIPE);
        try {
            while (!Files.readString(log).contains("\"phase\":\"stream\"")) {
                assertThat(job.isAlive()).as(Files.readString(log)).isTrue();
                Thread.sleep(50);
            }
            job.getOutputStream().close();
            assertThat(job.waitFor(60, TimeUnit.SECONDS)).isTrue();
            assertThat(job.exitValue()).isEqualTo(143);
            assertThat(Files.readString(log)).contains("the command that started the job is gone");
        } finally {
            job.destroyForcibly();
        }
    }

    @Test
    void aJobWithoutThatPipeGoesOnToItsEnd() throws Exception {
        write(20);
        Path nothing = Files.writeString(folder.resolve("nothing"), "");
        Path log = folder.resolve("log");
        Process job = start(job(1, answers), log, ProcessBuilder.Redirect.from(nothing.toFile()));
        try {
            assertThat(job.waitFor()).as(Files.readString(log)).isZero();
        } finally {
            job.destroyForcibly();
        }
        everyQueryIsAnsweredOnce(20);
    }

    private void write(int count) throws IOException {
        Files.write(vectors, lines("id", ROWS));
        Files.write(queries, lines("query_id", count));
    }

    private static List<String> lines(String id, int count) {
        return IntStream.range(0, count)
                .mapToObj(i -> "{\"" + id + "\":" + i + ",\"vector\":[" + i % 7 + "," + i + "]}")
                .toList();
    }

    private String job(int parallelism, Path to) {
        return """
        {"name": "files", "parallelism": %d,
         "collection": {"dimension": 2, "metric": "l2", "element": "f32",
                        "index": "flat", "seed": 7, "encoder": {"kind": "id"}},
         "vectors": {"kind": "file", "path": "%s"},
         "queries": {"kind": "file", "path": "%s", "k": 1},
         "results": {"kind": "file", "path": "%s"},
         "checkpoint": {"interval": 100, "path": "%s"},
         "state": {"path": "%s"}}
        """
                .formatted(
                        parallelism,
                        vectors,
                        queries,
                        to,
                        folder.resolve("checkpoints"),
                        folder.resolve("state"));
    }

    private static DataStream<Incoming> source(
            StreamExecutionEnvironment env, String gate, Path file, boolean queries) {
        return env.fromSource(
                        new ScriptSource(new LineScript(file.toString(), queries, 0), gate),
                        WatermarkStrategy.noWatermarks(),
                        queries ? "queries" : "vectors",
                        Incoming.TYPE)
                .setParallelism(1);
    }

    private int run(String job, String... more) {
        try {
            Path file = Files.writeString(folder.resolve("job.json"), job);
            List<String> arguments = new ArrayList<>(List.of("--job", file.toString()));
            arguments.addAll(List.of(more));
            return JobRunner.run(arguments.toArray(String[]::new), print(out), print(err));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Process start(String job, Path log, ProcessBuilder.Redirect input) throws IOException {
        Path file = Files.writeString(folder.resolve("job.json"), job);
        String library = System.getProperty("vstream.native.dir");
        return new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx1g",
                        "-Dvstream.native.dir=" + library,
                        "-Dvstream.command.pipe=true",
                        "-cp",
                        System.getProperty("java.class.path"),
                        JobRunner.class.getName(),
                        "--job",
                        file.toString())
                .redirectInput(input)
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
    }

    /** Number of the newest complete checkpoint, 0 while there is none. */
    private int number() {
        Path newest = newest();
        return newest == null ? 0 : number(newest);
    }

    private Path newest() {
        Path all = folder.resolve("checkpoints");
        if (!Files.exists(all)) {
            return null;
        }
        try (var files = Files.find(all, 3, (path, kind) -> path.endsWith("_metadata"))) {
            return files.map(Path::getParent)
                    .max(Comparator.comparingInt(FileJobIT::number))
                    .orElse(null);
        } catch (IOException | UncheckedIOException e) {
            // An old checkpoint went while we looked.
            return null;
        }
    }

    private static int number(Path checkpoint) {
        return Integer.parseInt(checkpoint.getFileName().toString().substring("chk-".length()));
    }

    /** Each finds the row that is its own, as far as there are rows. */
    private void everyQueryIsAnsweredOnce(int count) throws IOException {
        List<String> lines = Files.readAllLines(answers);
        assertThat(lines).hasSize(count);
        assertThat(lines.stream().map(line -> line.replaceAll("\\D*(\\d+).*", "$1")).distinct())
                .hasSize(count);
        assertThat(lines)
                .filteredOn(line -> line.contains("\"query_id\":17,"))
                .singleElement()
                .asString()
                .contains("\"ids\":[17]");
    }

    /** Passes queries on, and throws once: when three checkpoints have completed meanwhile. */
    private static final class FailLate
            implements MapFunction<Incoming, Incoming>, CheckpointListener {

        private static final long serialVersionUID = 1L;
        private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

        private final String name;
        private transient boolean asked;
        private transient int checkpoints;

        FailLate(String name) {
            this.name = name;
        }

        @Override
        public Incoming map(Incoming query) throws InterruptedException {
            asked = true;
            if (!FAILED.contains(name)) {
                if (checkpoints >= 3) {
                    FAILED.add(name);
                    throw new IllegalStateException("The test fails the job here.");
                }
                // The queries would come to their end before that.
                Thread.sleep(1);
            }
            return query;
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) {
            checkpoints += asked ? 1 : 0;
        }
    }

    private static PrintStream print(ByteArrayOutputStream to) {
        return new PrintStream(to, true, StandardCharsets.UTF_8);
    }
}
