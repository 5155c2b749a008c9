package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.source.DataFiles;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints on a real server that speaks S3: {@code make test-s3} starts one. */
@EnabledIfEnvironmentVariable(named = "VSTREAM_TEST_S3", matches = "s3://.+")
class ObjectStoreIT {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long LIMIT_NANOS = Duration.ofSeconds(120).toNanos();
    private static final long SEED = 20260402;
    private static final int DIMENSION = 64;
    private static final int PRELOAD = 4_000;
    private static final int RECORDS = 8_000;

    private final String bucket = System.getenv("VSTREAM_TEST_S3") + "/job-" + UUID.randomUUID();

    @TempDir private Path folder;

    @BeforeEach
    void load() {
        FileSystems.load(System.getenv());
    }

    @Test
    void aJobThatIsKilledGoesOnFromItsNewestCheckpoint() throws Exception {
        Path vectors = DataFiles.floats(folder, "base", 6_000, DIMENSION);
        Path file = Files.writeString(folder.resolve("job.json"), job(vectors, 2));
        Path log = folder.resolve("log");
        Process first = start(file, log);
        try {
            // The second is of the stream: the first may be of the preload.
            long end = System.nanoTime() + LIMIT_NANOS;
            while (numberOfNewest() < 2) {
                assertThat(first.isAlive()).as(Files.readString(log)).isTrue();
                assertThat(System.nanoTime()).as(Files.readString(log)).isLessThan(end);
                Thread.sleep(50);
            }
        } finally {
            first.destroyForcibly().waitFor();
        }
        assertThat(Files.readString(log)).doesNotContain(System.getenv("AWS_SECRET_ACCESS_KEY"));

        Files.writeString(file, job(vectors, 3));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        int code =
                JobRunner.run(
                        new String[] {"--job", file.toString(), "--restore", bucket},
                        new PrintStream(out, true, StandardCharsets.UTF_8),
                        new PrintStream(err, true, StandardCharsets.UTF_8));
        assertThat(code).as(err.toString(StandardCharsets.UTF_8)).isZero();
        JsonNode result =
                Stream.of(out.toString(StandardCharsets.UTF_8).split("\n"))
                        .map(ObjectStoreIT::parse)
                        .filter(line -> line.path("type").asText().equals("result"))
                        .findFirst()
                        .orElseThrow();
        // Counts are part of the state: every insert of both runs, once.
        int inserts = result.path("preloaded").asInt() + result.path("vectors").asInt();
        assertThat(inserts).isEqualTo(PRELOAD + RECORDS * 3 / 4);
        assertThat(result.path("rows_per_partition")).hasSize(3);
    }

    @Test
    void exactAnswersAfterAFailureAndARescaleAreThoseOfTheOracle() throws Exception {
        // So slow that checkpoints complete before the failure.
        WriteScript script = new WriteScript(SEED, 600, 6_000, 40, 1_000, 1_000, 1_500, 6_000);
        String at = new Scenario(script, bucket).cancelAt(1, 2);
        assertThat(at).startsWith(bucket);
        assertThat(
                        new Scenario(script, bucket + "/next")
                                .from(at, RecoveryClaimMode.NO_CLAIM)
                                .failingAfter(1_000)
                                .differences(3))
                .as("seed %d", SEED)
                .isEmpty();
    }

    @Test
    void rowsInTheStoreSurviveAFailureAndARescale() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 1, 600, 6_000, 40, 2_000, 1_000, 2_000, 4_000, 6_000);
        String store = bucket + "/level?endpoint=" + System.getenv("AWS_ENDPOINT_URL");
        String at = new Scenario(script, bucket).withRemote(store).cancelAt(1, 2);
        assertThat(
                        new Scenario(script, bucket + "/next")
                                .withRemote(store)
                                .from(at, RecoveryClaimMode.NO_CLAIM)
                                .failingAfter(1_000)
                                .differences(3))
                .as("seed %d", SEED + 1)
                .isEmpty();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aJobWithCheckpointsInTheStoreIsAskedFromOutside(boolean others) throws Exception {
        int writes = 10_000;
        WriteScript script =
                new WriteScript(8, SEED + 3, true, 600, writes, 40, 4_000, 1_000, writes);
        Scenario scenario = new Scenario(script, bucket).readable().failingAfter(5_000);
        Reading reading = new Reading(script, scenario::applied, bucket, others);
        List<String> wrong;
        try {
            wrong = scenario.atGates(reading::beforeGate).differences(3);
        } finally {
            reading.end();
        }
        assertThat(wrong).as("seed %d", script.seed()).isEmpty();
        assertThat(reading.wrong()).as("seed %d", script.seed()).isEmpty();
        assertThat(reading.hasFound()).as(reading.toString()).isTrue();
        System.out.println(reading);
    }

    @Test
    void aStoreThatIsAwayMakesAnswersPartialAndTheyBecomeWholeAgain() throws Exception {
        int writes = 6_000;
        int away = 20;
        WriteScript script =
                new WriteScript(SEED + 2, 600, writes, 60, 4_000, 2_000, writes, writes + away);
        try (TcpProxy way = new TcpProxy(System.getenv("AWS_ENDPOINT_URL"))) {
            Scenario scenario =
                    new Scenario(script, folder)
                            .withRemote(bucket + "/away?endpoint=" + way.address());
            scenario.atGates(
                    stage -> {
                        if (stage == 1) {
                            way.cut(true);
                        } else if (stage == 2) {
                            awaitAnswers(scenario, away);
                            way.cut(false);
                            // The store is left alone for 30 s at most after it gave no answer.
                            LockSupport.parkNanos(Duration.ofSeconds(31).toNanos());
                        }
                    });
            List<String> wrong = scenario.differences(2);
            for (long query = 0; query < script.queries(); query++) {
                if (query >= away || script.exact(query)) {
                    assertThat(scenario.answers().get(query).partial())
                            .as("query %d, which reads every row if it is below %d", query, away)
                            .isEqualTo(query < away);
                }
            }
            // What is wrong with a partial answer is that rows are missing, and nothing else.
            assertThat(wrong)
                    .as("seed %d", SEED + 2)
                    .allMatch(
                            one ->
                                    one.startsWith("approximate")
                                            || number(one) < away && !one.contains(": id"));
        }
    }

    private static void awaitAnswers(Scenario scenario, int number) {
        long end = System.nanoTime() + LIMIT_NANOS;
        while (scenario.answers().size() < number) {
            assertThat(System.nanoTime()).isLessThan(end);
            LockSupport.parkNanos(Duration.ofMillis(50).toNanos());
        }
    }

    private static long number(String wrong) {
        return Long.parseLong(wrong.replaceAll("query (\\d+).*", "$1"));
    }

    private int numberOfNewest() throws Exception {
        try {
            String found = FileSystems.newest(bucket);
            return Integer.parseInt(found.substring(found.lastIndexOf("chk-") + 4));
        } catch (IllegalArgumentException e) {
            // There is none yet.
            return 0;
        }
    }

    private String job(Path vectors, int parallelism) {
        return """
        {"name": "killed", "parallelism": %d, "training-sample": 1000,
         "collection": {"dimension": %d, "metric": "l2", "element": "f32", "index": "cluster",
                        "seed": 1, "encoder": {"kind": "cells", "cells": 16}},
         "vectors": {"kind": "generator", "path": "%s", "preload": %d, "limit": %d},
         "workload": {"rate": 1000, "duration": 0,
                      "ratio": {"queries": 0, "inserts": 3, "deletes": 1}},
         "checkpoint": {"interval": 500, "path": "%s"},
         "state": {"path": "%s"}}
        """
                .formatted(
                        parallelism,
                        DIMENSION,
                        vectors,
                        PRELOAD,
                        RECORDS,
                        bucket,
                        folder.resolve("state"));
    }

    private static Process start(Path job, Path log) throws Exception {
        return new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx1g",
                        "-cp",
                        System.getProperty("java.class.path"),
                        JobRunner.class.getName(),
                        "--job",
                        job.toString())
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
    }

    private static JsonNode parse(String line) {
        try {
            return JSON.readTree(line);
        } catch (java.io.IOException e) {
            throw new AssertionError("Not JSON on standard output: " + line, e);
        }
    }
}
