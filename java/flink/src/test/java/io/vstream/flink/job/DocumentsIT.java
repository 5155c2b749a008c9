package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.dataflow.DataflowSettings;
import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import io.vstream.flink.source.ScriptSource;
import io.vstream.flink.text.TextDataflow;
import io.vstream.flink.text.TextSettings;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Documents that are written, replaced and deleted while the job fails: afterwards the index holds
 * exactly the chunks of the documents that there are.
 */
@Timeout(120)
class DocumentsIT {

    private static final long SEED = 20_261_126;
    private static final int DOCUMENTS = 60;
    private static final int SENTENCES = 40;
    private static final int DIMENSION = 8;
    private static final String MODEL = "../../crates/embed/tests/fixtures/words";
    private static final TextSettings TEXTS =
            new TextSettings("text", 64, 0, MODEL, "", 256, 1, 2, 16);

    @TempDir private Path folder;

    private final String name = UUID.randomUUID().toString();
    private final RecordLog documents = new RecordLog(name);
    private final RecordLog questions = new RecordLog(name + "-questions");
    private final Answers answers = new Answers(name);
    private final Map<String, List<String>> texts = new TreeMap<>();
    private long asked;

    @Test
    void aFailureLosesAndRepeatsNoChunk() throws Exception {
        SplittableRandom random = new SplittableRandom(SEED);
        JobClient job = start();
        try {
            change(random, 200);
            awaitRows();
            // FailOnce waits for a checkpoint, throws, and the job goes on from there.
            change(random, 400);
            awaitRows();
            assertThat(FailOnce.failed(name)).isTrue();
            change(random, 100);
            awaitRows();
        } finally {
            job.cancel().get();
        }
    }

    private JobClient start() throws Exception {
        Configuration flink = SearchDataflow.flinkSettings();
        FlinkSettings.incrementalState(flink);
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(200));
        flink.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        flink.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 5);
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(10));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(flink);
        DataflowSettings settings =
                DataflowSettings.of(
                                "{\"dimension\": 8, \"metric\": \"cosine\", \"id\": \"string\","
                                        + " \"encoder\": {\"kind\": \"id\"}}",
                                2)
                        .k(10)
                        .build();
        DataStream<Incoming> records =
                TextDataflow.documents(
                                source(env, documents), TEXTS, settings.schema(), DIMENSION, 3)
                        .map(new FailOnce(name, 300))
                        .returns(Incoming.TYPE)
                        .setParallelism(1);
        DataStream<Incoming> queries =
                TextDataflow.questions(
                        source(env, questions), TEXTS, settings.schema(), DIMENSION, 10);
        SearchDataflow.add(env, settings, new SearchDataflow.Inputs(records, queries))
                .answers()
                .sinkTo(answers)
                .setParallelism(1)
                .uid("answers");
        return env.executeAsync();
    }

    private static DataStream<Incoming> source(StreamExecutionEnvironment env, RecordLog log) {
        return env.fromSource(
                        new ScriptSource(log, log.name()),
                        WatermarkStrategy.noWatermarks(),
                        "log",
                        Incoming.TYPE)
                .setParallelism(1)
                .uid(log.name());
    }

    /** Writes documents of some sentences each, which they have in common, and deletes some. */
    private void change(SplittableRandom random, int records) {
        List<Incoming> written = new ArrayList<>();
        for (int i = 0; i < records; i++) {
            String id = "d" + random.nextInt(DOCUMENTS);
            Incoming record = new Incoming();
            record.kind = Incoming.Kind.VECTOR_LINE;
            if (random.nextInt(5) == 0) {
                texts.remove(id);
                record.line = "{\"id\":\"" + id + "\",\"op\":\"delete\"}";
            } else {
                List<String> sentences =
                        random.ints(1 + random.nextInt(4), 0, SENTENCES)
                                .mapToObj(DocumentsIT::sentence)
                                .toList();
                texts.put(id, sentences);
                String text = String.join("\\n\\n", sentences);
                record.line = "{\"id\":\"" + id + "\",\"text\":\"" + text + "\"}";
            }
            written.add(record);
        }
        documents.append(written);
    }

    /** More than half of a chunk, so that each is one. */
    private static String sentence(int number) {
        return "In year " + (1800 + number) + " the harvest of the Union was good.";
    }

    /** Asks for all rows until they are those of the documents. */
    private void awaitRows() throws InterruptedException {
        TreeSet<String> expected = new TreeSet<>();
        texts.forEach(
                (id, sentences) -> {
                    for (int i = 0; i < sentences.size(); i++) {
                        long before =
                                sentences.subList(0, i).stream().mapToInt(String::length).sum();
                        expected.add(id + "@" + (before + 2L * i) + ":" + sentences.get(i));
                    }
                });
        List<String> found = List.of();
        long end = System.nanoTime() + Duration.ofSeconds(50).toNanos();
        while (System.nanoTime() < end) {
            found = ask();
            if (found.equals(List.copyOf(expected))) {
                return;
            }
        }
        assertThat(found).as("seed %d", SEED).isEqualTo(List.copyOf(expected));
    }

    private List<String> ask() throws InterruptedException {
        Incoming question = new Incoming();
        question.kind = Incoming.Kind.QUERY_LINE;
        question.line =
                "{\"query_id\":"
                        + ++asked
                        + ",\"text\":\"harvest\",\"k\":1000,\"effort\":\"exact\"}";
        questions.append(List.of(question));
        long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (!answers.byQuery().containsKey(asked) && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        Answer answer = answers.byQuery().get(asked);
        if (answer == null) {
            return List.of();
        }
        List<String> rows = new ArrayList<>();
        for (AnswerRow row : answer.rows()) {
            String payload = new String(row.payload(), StandardCharsets.UTF_8);
            String start = payload.replaceAll(".*\"start\":(\\d+),.*", "$1");
            String text = payload.replaceAll(".*\"text\":\"(.*)\"}", "$1");
            rows.add(row.id().split("#")[0] + "@" + start + ":" + text);
        }
        rows.sort(null);
        return rows;
    }
}
