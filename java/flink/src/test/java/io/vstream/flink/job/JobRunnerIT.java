package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.source.DataFiles;
import io.vstream.nativecore.NativeEngine;
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
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whole jobs as the command starts them, from files to the last line. */
class JobRunnerIT {

    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir private Path folder;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    @Test
    void badInputIsCountedAndTheJobGoesOn() throws Exception {
        Path vectors =
                lines(
                        "vectors.jsonl",
                        "{\"id\":1,\"vector\":[1,0,0]}",
                        "{\"id\":2,\"vector\":[0,1,0]}",
                        "not json",
                        "{\"id\":3,\"vector\":[1,2]}",
                        "{\"id\":4,\"vector\":[1,2,NaN]}",
                        "{\"id\":5,\"vector\":[0,0,0]}",
                        "{\"id\":-6,\"vector\":[1,2,3]}",
                        "{\"id\":7,\"vector\":[1e-30,0,0]}",
                        "x".repeat(300_000),
                        "{\"id\":999,\"op\":\"delete\"}",
                        "{\"id\":18446744073709551615,\"vector\":[0,0,1]}",
                        "{\"id\":2,\"op\":\"delete\"}",
                        "{\"id\":1,\"vector\":[0.9,0.1,0]}");
        Path queries =
                lines(
                        "queries.jsonl",
                        "{\"query_id\":1,\"vector\":[1,0,0],\"k\":0}",
                        "{\"query_id\":1,\"vector\":[1,0,0],\"k\":5000}",
                        "{\"query_id\":1,\"vector\":[1,0]}",
                        "{\"query_id\":1,\"vector\":[0,0,0]}",
                        "{\"query_id\":1,\"vector\":[1,0,0],\"effort\":\"most\"}",
                        "{\"query_id\":2,\"vector\":[0,0,2],\"k\":7}",
                        "{\"query_id\":2,\"vector\":[0,0,2],\"k\":1}");
        Path answers = folder.resolve("out/answers.jsonl");
        ObjectNode job = job("cosine", 3, 2);
        job.putObject("vectors").put("kind", "file").put("path", vectors.toString());
        job.putObject("queries").put("kind", "file").put("path", queries.toString()).put("k", 3);
        job.putObject("results").put("kind", "file").put("path", answers.toString());

        assertThat(run(job)).as(err.toString()).isZero();

        JsonNode result = result();
        JsonNode bad = result.path("bad_by_reason");
        assertThat(bad.path("malformed_line").asInt()).isEqualTo(1);
        assertThat(bad.path("line_too_long").asInt()).isEqualTo(1);
        assertThat(bad.path("wrong_dimension").asInt()).isEqualTo(2);
        assertThat(bad.path("not_finite").asInt()).isEqualTo(1);
        assertThat(bad.path("zero_norm").asInt()).isEqualTo(2);
        assertThat(bad.path("bad_id").asInt()).isEqualTo(1);
        assertThat(bad.path("bad_k").asInt()).isEqualTo(2);
        assertThat(bad.path("bad_effort").asInt()).isEqualTo(1);
        assertThat(result.path("bad_records").asInt()).isEqualTo(11);
        assertThat(result.path("vectors").asInt()).isEqualTo(5);
        assertThat(result.path("deletes").asInt()).isEqualTo(1);
        assertThat(result.path("unknown_deletes").asInt()).isEqualTo(1);
        assertThat(result.path("queries").asInt()).isEqualTo(2);
        // A query id may repeat; both queries see every vector of the file.
        List<JsonNode> lines =
                Files.readAllLines(answers).stream().map(JobRunnerIT::parse).toList();
        assertThat(lines).hasSize(2).allMatch(line -> line.path("query_id").asInt() == 2);
        assertThat(lines)
                .extracting(line -> line.path("ids").toString())
                .containsExactlyInAnyOrder("[18446744073709551615,1,7]", "[18446744073709551615]");
    }

    @Test
    void halvesAreKeptAndWhatTheyCannotHoldIsRefused() throws Exception {
        Path vectors =
                lines(
                        "vectors.jsonl",
                        "{\"id\":1,\"vector\":[1,2]}",
                        "{\"id\":2,\"vector\":[2049,2]}",
                        "{\"id\":1,\"vector\":[70000,2]}");
        Path queries = lines("queries.jsonl", "{\"query_id\":1,\"vector\":[2048,2],\"k\":2}");
        Path answers = folder.resolve("out/answers.jsonl");
        ObjectNode job = job("l2", 2, 1);
        ((ObjectNode) job.get("collection")).put("element", "f16");
        job.putObject("vectors").put("kind", "file").put("path", vectors.toString());
        job.putObject("queries").put("kind", "file").put("path", queries.toString()).put("k", 3);
        job.putObject("results").put("kind", "file").put("path", answers.toString());

        assertThat(run(job)).as(err.toString()).isZero();

        assertThat(result().path("bad_by_reason").path("not_of_element").asInt()).isEqualTo(1);
        // 2049 lies between two halves; the even one is 2048.
        JsonNode answer = parse(Files.readString(answers));
        assertThat(answer.path("ids").toString()).isEqualTo("[2,1]");
        assertThat(answer.path("distances").path(0).asDouble()).isZero();
    }

    /** Queries wait until every letter is in its mailbox, though no template is ever trained. */
    @Test
    void groupsFromFilesAreAskedOnceAllIsApplied() throws Exception {
        List<String> letters = new ArrayList<>();
        for (int i = 0; i < 3_000; i++) {
            String row = "\"group\":\"user-" + i % 100 + "\",\"id\":" + i / 100;
            letters.add("{" + row + ",\"vector\":[1," + (i / 100 + 1) / 100.0 + "]}");
        }
        letters.add("{\"group\":\"user-7\",\"id\":0,\"op\":\"delete\"}");
        letters.add("{\"group\":\"user-8\",\"op\":\"drop-group\"}");
        letters.add("{\"id\":1,\"vector\":[1,2]}");
        letters.add("{\"group\":\"\",\"id\":1,\"vector\":[1,2]}");
        Path vectors = lines("vectors.jsonl", letters.toArray(String[]::new));
        String vector = ",\"vector\":[1,0],\"k\":2}";
        Path queries =
                lines(
                        "queries.jsonl",
                        "{\"query_id\":6,\"group\":\"user-6\"" + vector,
                        "{\"query_id\":7,\"group\":\"user-7\"" + vector,
                        "{\"query_id\":8,\"group\":\"user-8\"" + vector,
                        "{\"query_id\":9" + vector);
        Path answers = folder.resolve("out/answers.jsonl");
        ObjectNode job = job("cosine", 2, 2);
        ((ObjectNode) job.get("collection")).putObject("groups").put("mode", "isolated");
        job.putObject("vectors").put("kind", "file").put("path", vectors.toString());
        job.putObject("queries").put("kind", "file").put("path", queries.toString()).put("k", 3);
        job.putObject("results").put("kind", "file").put("path", answers.toString());

        assertThat(run(job)).as(err.toString()).isZero();

        assertThat(result().path("bad_by_reason").path("bad_group").asInt()).isEqualTo(3);
        assertThat(result().path("vectors").asInt()).isEqualTo(3_000);
        List<JsonNode> lines =
                Files.readAllLines(answers).stream().map(JobRunnerIT::parse).toList();
        assertThat(lines)
                .extracting(line -> line.path("query_id") + ":" + line.path("ids"))
                .containsExactlyInAnyOrder("6:[0,1]", "7:[1,2]", "8:[]");
    }

    /** Questions wait until every chunk is embedded and in the index. */
    @Test
    void documentsAreCutEmbeddedAndReplaced() throws Exception {
        List<String> speeches = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            String text =
                    "Harvest number " + i + " was good. Peace prevails. " + "Trade. ".repeat(i % 9);
            speeches.add("{\"id\":\"s" + i + "\",\"text\":\"" + text + "\",\"year\":" + i + "}");
        }
        speeches.add("{\"id\":\"s7\",\"text\":\"Railroads cross the plains.\",\"year\":1869}");
        speeches.add("{\"id\":\"s8\",\"op\":\"delete\"}");
        speeches.add("{\"id\":\"s9\",\"op\":\"update\",\"year\":1900}");
        speeches.add("{\"id\":\"bad\",\"vector\":[1,2,3,4,5,6,7,8]}");
        speeches.add("{\"id\":\"bad\",\"text\":7}");
        speeches.add("{\"id\":\"bad\",\"text\":\"a\",\"payload\":{}}");
        Path vectors = lines("speeches.jsonl", speeches.toArray(String[]::new));
        String exact = ",\"effort\":\"exact\"}";
        Path queries =
                lines(
                        "questions.jsonl",
                        "{\"query_id\":1,\"text\":\"railroads cross the plains\",\"k\":1" + exact,
                        "{\"query_id\":2,\"text\":\"harvest\",\"k\":9,\"filter\":{\"must\":["
                                + "{\"key\":\"year\",\"range\":{\"gte\":1900}}]}"
                                + exact,
                        "{\"query_id\":3,\"text\":\"harvest\",\"k\":1000,\"with\":[\"year\"]"
                                + exact,
                        "{\"query_id\":4}");
        Path answers = folder.resolve("out/answers.jsonl");
        ObjectNode job = job("cosine", 8, 2);
        ObjectNode collection = (ObjectNode) job.get("collection");
        collection.put("id", "string").putObject("attributes").put("year", "i64");
        job.putObject("vectors").put("kind", "file").put("path", vectors.toString());
        job.putObject("queries").put("kind", "file").put("path", queries.toString()).put("k", 3);
        job.putObject("documents").putObject("chunk").put("size", 64).put("overlap", 0);
        job.putObject("embedding")
                .put("model", "../../crates/embed/tests/fixtures/words")
                .put("parallelism", 2);
        job.putObject("results").put("kind", "file").put("path", answers.toString());

        assertThat(run(job)).as(err.toString()).isZero();

        JsonNode bad = result().path("bad_by_reason");
        assertThat(bad.path("malformed_line").asInt()).isEqualTo(3);
        assertThat(bad.path("wrong_type").asInt()).isEqualTo(1);
        Map<Integer, JsonNode> byId =
                Files.readAllLines(answers).stream()
                        .map(JobRunnerIT::parse)
                        .collect(Collectors.toMap(one -> one.path("query_id").asInt(), one -> one));
        assertThat(byId.keySet()).containsExactlyInAnyOrder(1, 2, 3);
        assertThat(byId.get(1).path("rows").path(0).path("payload").toString())
                .isEqualTo(
                        "{\"document\":\"s7\",\"start\":0,\"end\":27,"
                                + "\"text\":\"Railroads cross the plains.\"}");
        assertThat(byId.get(2).path("ids"))
                .extracting(id -> id.asText().split("#")[0])
                .containsOnly("s9");
        // Every row is asked for: those of s8, and the old ones of s7, are gone.
        List<String> documents = new ArrayList<>();
        byId.get(3).path("ids").forEach(id -> documents.add(id.asText().split("#")[0]));
        assertThat(documents).doesNotContain("s8", "bad").contains("s0", "s199");
        assertThat(documents).filteredOn("s7"::equals).hasSize(1);
        assertThat(byId.get(3).path("rows").path(0).path("attributes").has("year")).isTrue();
    }

    @Test
    void aGeneratorPreloadsTrainsStreamsAndEnds() throws Exception {
        Path vectors = DataFiles.floats(folder, "base", 3_000, 4);
        Path queries = DataFiles.floats(folder, "queries", 50, 4);
        Path snapshot = folder.resolve("snapshot");
        ObjectNode job = job("l2", 4, 2);
        job.putObject("vectors")
                .put("kind", "generator")
                .put("path", vectors.toString())
                .put("preload", 2_000)
                .put("limit", 5_000);
        job.putObject("queries")
                .put("kind", "generator")
                .put("path", queries.toString())
                .put("k", 10);
        ObjectNode workload = job.putObject("workload");
        workload.put("rate", 5_000).put("duration", 0);
        workload.putObject("ratio").put("queries", 1).put("inserts", 3).put("deletes", 1);
        job.put("audit-share", 1.0);
        job.putObject("results").put("kind", "console");
        job.putObject("checkpoint")
                .put("interval", 200)
                .put("path", folder.resolve("checkpoints").toString());
        job.putObject("state").put("path", folder.resolve("state").toString());
        job.putObject("snapshot").put("path", snapshot.toString());

        assertThat(run(job)).as(err.toString()).isZero();

        JsonNode result = result();
        assertThat(result.path("preloaded").asInt()).isEqualTo(2_000);
        assertThat(result.path("vectors").asInt()).isEqualTo(3_000);
        assertThat(result.path("deletes").asInt()).isEqualTo(1_000);
        assertThat(result.path("queries").asInt()).isEqualTo(1_000);
        // The queries do not wait for audits: those that find no place are left out.
        assertThat(result.path("audits").asInt()).isBetween(100, 1_000);
        assertThat(result.path("bad_records").asInt()).isZero();
        assertThat(result.path("recall_at_10").asDouble()).isGreaterThan(0.8);
        assertThat(result.path("records_per_s").asDouble()).isBetween(2_000.0, 6_000.0);
        assertThat(lines("answer")).hasSize(1_000);
        // 2,000 first inserts of rows 2,000 to 2,999 are updates or new rows; the rest wraps.
        int live = 0;
        for (int partition = 0; partition < 2; partition++) {
            Path files = snapshot.resolve("partition-" + partition);
            try (NativeEngine engine =
                    NativeEngine.restore(job.path("collection").toString(), files)) {
                live += parse(engine.statsJson()).path("live-rows").asInt();
            }
        }
        int reported =
                IntStream.range(0, 2)
                        .map(i -> result.path("rows_per_partition").path(i).asInt())
                        .sum();
        assertThat(live).isEqualTo(reported);
        // Nothing private is left behind.
        try (var left = Files.list(folder.resolve("state"))) {
            assertThat(left).isEmpty();
        }
    }

    @Test
    void aJobThatWasStoppedGoesOnAtAnotherParallelism() throws Exception {
        Path vectors = DataFiles.floats(folder, "base", 3_000, 4);
        ObjectNode job = job("l2", 4, 2);
        job.putObject("vectors")
                .put("kind", "generator")
                .put("path", vectors.toString())
                .put("preload", 1_000)
                .put("limit", 3_000);
        job.putObject("queries")
                .put("kind", "generator")
                .put("path", DataFiles.floats(folder, "query", 10, 4).toString());
        job.putObject("workload").put("rate", 1_000).put("duration", 0);
        ((ObjectNode) job.get("workload"))
                .putObject("ratio")
                .put("queries", 1)
                .put("inserts", 3)
                .put("deletes", 1);
        job.putObject("checkpoint")
                .put("interval", 100)
                .put("path", folder.resolve("checkpoints").toString());
        Thread first = new Thread(() -> runQuietly(job), "first");
        first.start();
        // A checkpoint of the middle of the stream: the fifth is not before half a second.
        Path checkpoint = null;
        while (checkpoint == null) {
            assertThat(first.isAlive()).as(err.toString()).isTrue();
            Thread.sleep(20);
            checkpoint = newestCheckpoint(5);
        }
        first.interrupt();
        first.join();
        checkpoint = newestCheckpoint(5);
        assertThat(lines("result")).isEmpty();

        job.put("parallelism", 3);
        assertThat(run(job, "--restore", checkpoint.toString())).as(err.toString()).isZero();

        JsonNode result = result();
        // All that came before this run began to measure, those of the first run among them.
        // Counts are part of the state: what came before this run measures, most of it in the first
        // run, and what came since are all there is.
        int before = result.path("preloaded").asInt();
        int since = result.path("vectors").asInt();
        assertThat(before).isGreaterThanOrEqualTo(1_000);
        assertThat(before + since).isEqualTo(2_800);
        assertThat(result.path("deletes").asInt()).isBetween(since / 3 - 2, since / 3 + 2);
        assertThat(result.path("queries").asInt()).isBetween(since / 3 - 2, since / 3 + 2);
        assertThat(result.path("rows_per_partition")).hasSize(3);
    }

    @Test
    void refusesToStartWithASentence() throws Exception {
        ObjectNode job = job("l2", 4, 1);
        job.putObject("vectors").put("kind", "generator").put("path", "/no/such.fbin");
        assertThat(run(job)).isEqualTo(2);
        assertThat(err.toString()).contains("/no/such.fbin is missing");

        Path other = DataFiles.floats(folder, "other", 10, 5);
        job.putObject("vectors").put("kind", "generator").put("path", other.toString());
        assertThat(run(job)).isEqualTo(2);
        assertThat(err.toString()).contains("of dimension 5 and collection.dimension is 4");

        Path fits = DataFiles.floats(folder, "fits", 10, 4);
        job.putObject("vectors")
                .put("kind", "generator")
                .put("path", fits.toString())
                .put("preload", 11);
        assertThat(run(job)).isEqualTo(2);
        assertThat(err.toString()).contains("only 10 rows");
        assertThat(JobRunner.run(new String[] {"--jab", "x"}, print(out), print(err))).isEqualTo(2);
        assertThat(err.toString()).contains("--jab");
    }

    private ObjectNode job(String metric, int dimension, int parallelism) {
        ObjectNode job = JSON.createObjectNode();
        job.put("name", "test").put("parallelism", parallelism).put("training-sample", 500);
        ObjectNode collection = job.putObject("collection");
        collection.put("dimension", dimension).put("metric", metric).put("element", "f32");
        collection.put("index", "cluster").put("seed", 1);
        collection.putObject("encoder").put("kind", "cells").put("cells", 16);
        return job;
    }

    /** The newest complete checkpoint, if its number is {@code atLeast}; or null. */
    private Path newestCheckpoint(int atLeast) throws IOException {
        if (!Files.exists(folder.resolve("checkpoints"))) {
            return null;
        }
        try (var files =
                Files.find(folder.resolve("checkpoints"), 3, (path, a) -> isMetadata(path))) {
            return files.map(Path::getParent)
                    .filter(path -> number(path) >= atLeast)
                    .max(Comparator.comparingInt(JobRunnerIT::number))
                    .orElse(null);
        } catch (UncheckedIOException e) {
            // An old checkpoint went while we looked.
            return null;
        }
    }

    private static boolean isMetadata(Path path) {
        return path.endsWith("_metadata");
    }

    private static int number(Path checkpoint) {
        return Integer.parseInt(checkpoint.getFileName().toString().substring("chk-".length()));
    }

    private void runQuietly(ObjectNode job) {
        try {
            run(job);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private int run(ObjectNode job, String... more) throws IOException {
        Path file = Files.writeString(folder.resolve("job.json"), job.toString());
        // The console sink prints to the process's standard output, as in the command.
        PrintStream console = System.out;
        System.setOut(print(out));
        try {
            String[] arguments =
                    Stream.concat(Stream.of("--job", file.toString()), Stream.of(more))
                            .toArray(String[]::new);
            return JobRunner.run(arguments, System.out, print(err));
        } finally {
            System.setOut(console);
        }
    }

    private static PrintStream print(ByteArrayOutputStream to) {
        return new PrintStream(to, true, StandardCharsets.UTF_8);
    }

    private JsonNode result() {
        List<JsonNode> results = lines("result");
        assertThat(results).hasSize(1);
        return results.get(0);
    }

    private List<JsonNode> lines(String type) {
        List<JsonNode> found = new ArrayList<>();
        for (String line : out.toString(StandardCharsets.UTF_8).split("\n")) {
            JsonNode json = parse(line);
            if (json.path("type").asText().equals(type)) {
                found.add(json);
            }
        }
        return found;
    }

    private Path lines(String name, String... lines) throws IOException {
        return Files.write(folder.resolve(name), List.of(lines));
    }

    private static JsonNode parse(String line) {
        try {
            return JSON.readTree(line);
        } catch (IOException e) {
            throw new AssertionError("Not JSON on standard output: " + line, e);
        }
    }
}
