package io.vstream.flink;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.merge.Answer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.SchedulerExecutionMode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A program with a search in it, run where it is started. */
class VectorSearchIT {

    private static final String BY_ID =
            "{\"dimension\": 2, \"metric\": \"l2\", \"encoder\": {\"kind\": \"id\"}}";
    private static final long PATIENCE_NANOS = Duration.ofSeconds(60).toNanos();

    private final StreamExecutionEnvironment env = environment();

    @Test
    void answersFromTheStreamOfVectors() throws Exception {
        DataStream<VectorChange> changes =
                env.fromData(
                                VectorChange.upsert(1, 0, 0),
                                VectorChange.upsert(2, 3, 4),
                                VectorChange.upsert(-3, 6, 8),
                                VectorChange.delete(1),
                                VectorChange.upsert(2, 6, 7))
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<VectorChange>forMonotonousTimestamps()
                                        .withTimestampAssigner((change, at) -> 1_000));
        VectorSearch search =
                VectorSearch.collection(BY_ID)
                        .vectors(changes)
                        .queries(questions())
                        .k(2)
                        .partitions(3)
                        .memory(1 << 20)
                        .codeMemory(1 << 10)
                        .build();
        assertThat(env.getParallelism()).isEqualTo(2);
        long end = System.nanoTime() + PATIENCE_NANOS;
        Answer answer;
        try (CloseableIterator<Answer> answers = search.results().executeAndCollect()) {
            // While the job warms up on a busy machine, questions are shed: their answers are
            // partial, and say so.
            do {
                answer = answers.next();
            } while ((answer.partial() || answer.frontier().watermark() < Long.MAX_VALUE)
                    && System.nanoTime() < end);
        }
        // The bounded stream has ended, which is as far as a watermark goes.
        assertThat(answer.frontier().watermark()).isEqualTo(Long.MAX_VALUE);
        assertThat(answer.partial()).isFalse();
        assertThat(answer.ids()).containsExactly(-3, 2);
        assertThat(answer.distances()).containsExactly(0, 1);
    }

    @Test
    void whatBreaksARuleComesBack() throws Exception {
        VectorSearch search =
                VectorSearch.collection(BY_ID)
                        .vectors(env.fromData(VectorChange.upsert(1, 1, 2, 3)))
                        .queries(questions())
                        .build();
        try (CloseableIterator<BadRecord> refused = search.refused().executeAndCollect()) {
            assertThat(refused.next().reason()).isEqualTo(BadRecord.Reason.WRONG_DIMENSION);
        }
    }

    /** Decode cannot know how much a row has already; the partition does. */
    @ParameterizedTest
    @ValueSource(strings = {"", "ann"})
    void whatAPartitionRefusesComesBackWithItsId(String group) throws Exception {
        int rows = 1_000;
        List<String> many = Collections.nCopies(15, "t".repeat(4 << 10));
        List<VectorChange> changes = new ArrayList<>();
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < rows; i++) {
            changes.add(VectorChange.upsert("sku/" + i, new float[64]).with("stock", i).in(group));
            if (i % 50 == 7) {
                changes.add(VectorChange.update("sku/" + i).with("tags", many).in(group));
                changes.add(VectorChange.update("sku/" + i).with("more", many).in(group));
                expected.add("sku/" + i);
            }
        }
        String settings =
                "{\"dimension\": 64, \"metric\": \"l2\", \"id\": \"string\", \"attributes\":"
                        + " {\"stock\": \"i64\", \"tags\": \"keywords\", \"more\": \"keywords\"},"
                        + (group.isEmpty() ? "" : " \"groups\": {\"mode\": \"isolated\"},")
                        + " \"encoder\": {\"kind\": \"id\"}}";
        VectorSearch search =
                VectorSearch.collection(settings)
                        .vectors(
                                env.fromData(
                                        VectorChange.TYPE, changes.toArray(VectorChange[]::new)))
                        .queries(env.fromData(VectorQuery.of(1, new float[64])))
                        .partitions(3)
                        .build();
        List<String> found = new ArrayList<>();
        try (CloseableIterator<BadRecord> refused = search.refused().executeAndCollect()) {
            // The streams end, and so does the job: it does not fail.
            while (refused.hasNext()) {
                BadRecord bad = refused.next();
                if (bad.reason() == BadRecord.Reason.BAD_GROUP) {
                    // The query names no group.
                    continue;
                }
                assertThat(bad.reason()).isEqualTo(BadRecord.Reason.TOO_LARGE);
                String where = group.isEmpty() ? "" : " of group 'ann'";
                assertThat(bad.text())
                        .contains(where + ": The attributes of the row ")
                        .endsWith("take more than 65536 bytes.");
                found.add(bad.text().split("'")[1]);
            }
        }
        assertThat(found).containsExactlyInAnyOrderElementsOf(expected);
    }

    @Test
    void rowsWithATimeToLiveEndOldestFirst() {
        VectorSearch.Builder builder = VectorSearch.collection(BY_ID);
        assertThat(builder.settings(2).collection()).contains("\"deletes\":\"any\"");
        String timed =
                builder.timeToLive(Duration.ofHours(2)).codeMemory(7).settings(2).collection();
        assertThat(timed).contains("\"deletes\":\"oldest-first\"", "\"code-memory\":7");
    }

    @Test
    void refusesWhatCannotBeUsedBeforeAnythingRuns() {
        assertThatThrownBy(() -> VectorSearch.collection(0, Metric.L2))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("dimension: 0 is out of range");
        VectorSearch.Builder builder = VectorSearch.collection(2, Metric.COSINE);
        assertThatThrownBy(builder::build).hasMessageContaining("call vectors(...)");
        assertThatThrownBy(() -> builder.k(1_001))
                .hasMessage("k: 1001 is out of range. Give 1 to 1000.");
        assertThatThrownBy(() -> builder.memory(9))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("memory: 9 is out of range");
        assertThatThrownBy(() -> builder.codeMemory(-1))
                .hasMessageContaining("code-memory: -1 is not a size");
        assertThatThrownBy(() -> builder.partitions(0)).hasMessageContaining("partitions: 0");
        assertThatThrownBy(
                        () ->
                                VectorSearch.collection(768, Metric.L2)
                                        .trainingSample(699_051)
                                        .settings(2))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("Give 699050 at most");
    }

    @Test
    void theNumberOfShardsIsChosenWhenTheCollectionIsMade() {
        VectorSearch.Builder builder = VectorSearch.collection(2, Metric.COSINE);
        assertThat(builder.settings(128).keys().shards()).isEqualTo(128);
        for (int bad : new int[] {-1, 0, 64, 129, 300, 8_192}) {
            assertThatThrownBy(() -> builder.shards(bad))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageStartingWith("collection.shards: " + bad + " is no power of two");
        }
        assertThatThrownBy(() -> builder.partitions(129).settings(129))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("partitions: 129 is out of range. Give 1 to 128");
        assertThat(builder.shards(1_024).settings(129).keys().shards()).isEqualTo(1_024);
        assertThatThrownBy(() -> builder.settings(1_025)).hasMessageContaining("Give 1 to 1024");
        assertThatThrownBy(() -> builder.partitions(4_097)).hasMessageContaining("4097");
        assertThatThrownBy(
                        () ->
                                VectorSearch.collection(
                                        "{\"dimension\": 2, \"metric\": \"l2\", \"shards\": 300}"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("shards: 300 is no power of two. Give 256 or 512.");
        assertThat(maxima(VectorSearch.flinkSettings(), 2_048))
                .containsEntry("search", 2_048)
                .containsEntry("place", 2_048)
                .containsEntry("train", 2_048);
    }

    /** What would lose or repeat rows without a word. */
    @ParameterizedTest
    @CsvSource({
        "execution.checkpointing.unaligned.enabled, true, aligned checkpoints",
        "execution.checkpointing.mode, AT_LEAST_ONCE, exactly-once checkpoints",
        "execution.runtime-mode, BATCH, batch mode",
        "execution.runtime-mode, AUTOMATIC, batch mode",
        "execution.checkpointing.file-merging.enabled, true, merged into one"
    })
    void refusesSettingsOfTheEnvironmentThatWouldBreakIt(String key, String value, String message) {
        Configuration flink = VectorSearch.flinkSettings();
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(1));
        flink.setString(key, value);
        StreamExecutionEnvironment other =
                StreamExecutionEnvironment.getExecutionEnvironment(flink);
        VectorSearch.Builder builder =
                VectorSearch.collection(2, Metric.COSINE)
                        .vectors(other.fromData(VectorChange.delete(1)))
                        .queries(other.fromData(VectorQuery.of(1, 1, 2)));
        assertThatThrownBy(builder::build)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(message);
    }

    /** Else reactive mode would start as many of them as there are slots. */
    @Test
    void reactiveModeStartsOneControlTask() {
        Configuration flink = VectorSearch.flinkSettings();
        flink.set(JobManagerOptions.SCHEDULER_MODE, SchedulerExecutionMode.REACTIVE);
        Map<String, Integer> reactive = maxima(flink);
        assertThat(reactive).containsEntry("train", 1).containsEntry("balance", 1);
        assertThat(reactive).containsEntry("place", 128).containsEntry("search", 128);
        // What savepoints hold: Flink refuses those with another maximum.
        assertThat(maxima(VectorSearch.flinkSettings()))
                .containsEntry("train", 128)
                .containsEntry("balance", 128);
    }

    private static Map<String, Integer> maxima(Configuration flink) {
        return maxima(flink, 128);
    }

    private static Map<String, Integer> maxima(Configuration flink, int shards) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(flink);
        env.setParallelism(2);
        VectorSearch.collection(64, Metric.L2)
                .shards(shards)
                .vectors(env.fromData(VectorChange.delete(1)))
                .queries(env.fromData(VectorQuery.of(1, new float[64])))
                .build()
                .results()
                .sinkTo(new DiscardingSink<>());
        Map<String, Integer> maxima = new HashMap<>();
        for (StreamNode node : env.getStreamGraph().getStreamNodes()) {
            maxima.put(node.getOperatorName(), node.getMaxParallelism());
        }
        return maxima;
    }

    /** The same question over and over, until somebody has heard enough. */
    private DataStream<VectorQuery> questions() {
        return env.fromSequence(0, Long.MAX_VALUE)
                .setParallelism(1)
                .map(
                        number -> {
                            Thread.sleep(5);
                            return VectorQuery.of(number, 6, 8).withExactAnswer();
                        })
                .returns(VectorQuery.TYPE)
                .setParallelism(1);
    }

    private static StreamExecutionEnvironment environment() {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(VectorSearch.flinkSettings());
        env.setParallelism(2);
        return env;
    }
}
