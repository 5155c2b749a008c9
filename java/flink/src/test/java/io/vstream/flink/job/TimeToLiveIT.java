package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.kafka.Shape;
import io.vstream.flink.kafka.TopicJob;
import io.vstream.flink.kafka.Traffic;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rows of a topic whose time is over are in no answer whose watermark says so. */
class TimeToLiveIT {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long BEGIN = 1_000_000_000_000L;
    private static final long LIFE = 60_000;
    private static final int PARTITIONS = 4;
    private static final int OLD = 40;
    private static final int YOUNG = 40;
    private static final String KEYS =
            "\"seed\": 7, \"id\": \"string\", \"attributes\": {\"colour\": \"keyword\"},";

    private static final String ASKED = ", \"with\": [\"colour\"]";

    private static final long PATIENCE_NANOS = 60_000_000_000L;

    @TempDir private Path folder;

    /** Rows that carry something are the same: an update of it begins the time anew, too. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void rowsThatAreOverAreInNoAnswer(boolean carrying) throws Exception {
        try (KafkaBroker broker = KafkaBroker.start(folder.resolve("broker"))) {
            broker.create(Traffic.topics("life"));
            String json =
                    TopicJob.json(broker.address(), 2, false, folder)
                            .replace("\"topic\": \"", "\"topic\": \"life-")
                            .replace("exactly-once", "at-least-once")
                            .replaceFirst(
                                    "\"format\"", "\"time-to-live\": " + LIFE + ", \"format\"")
                            .replace("\"training-sample\": 2000", "\"training-sample\": 300")
                            .replace("\"seed\": 7,", carrying ? KEYS : "\"seed\": 7,");
            JobSettings job = JobSettings.fromJson(json);
            StreamExecutionEnvironment env =
                    StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
            SearchDataflow.Inputs topics = Sources.add(env, job, "life", true);
            VStreamJob.addSink(job, SearchDataflow.add(env, job.dataflow(), topics).answers());
            try (LocalCluster cluster = new LocalCluster(2, 1);
                    KafkaProducer<String, String> producer = producer(broker);
                    KafkaConsumer<String, String> consumer = consumer(broker)) {
                JobID id = cluster.submit(env, "life");
                for (int row = 0; row < OLD; row++) {
                    upsert(producer, row, BEGIN + row, carrying);
                }
                // Some of them are written again, and live on; enough rows to train on follow.
                for (int row = OLD / 2; row < 10 * YOUNG; row++) {
                    if (carrying && row < OLD) {
                        update(producer, row, BEGIN + LIFE / 2 - 1);
                    } else {
                        upsert(producer, row, BEGIN + LIFE / 2 - 1, carrying);
                    }
                }
                endAt(producer, 10 * YOUNG, BEGIN + LIFE / 2, carrying);
                Set<Long> first = answer(producer, consumer, 1, BEGIN + LIFE / 2 - 1, carrying);
                assertThat(first).hasSize(10 * YOUNG);
                for (int row = 10 * YOUNG; row < 11 * YOUNG; row++) {
                    upsert(producer, row, BEGIN + LIFE + OLD - 1, carrying);
                }
                endAt(producer, 11 * YOUNG, BEGIN + LIFE + OLD, carrying);
                Set<Long> second =
                        answer(producer, consumer, 1_000, BEGIN + LIFE + OLD - 1, carrying);
                assertThat(second).hasSize(11 * YOUNG - OLD / 2).doesNotContain(0L, 19L);
                cluster.cancel(id);
            }
        }
    }

    /** Ids in the first answer with such a watermark; asks again until there is one. */
    private static Set<Long> answer(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            long firstQuery,
            long watermark,
            boolean carrying)
            throws Exception {
        long end = System.nanoTime() + PATIENCE_NANOS;
        for (long query = firstQuery; System.nanoTime() < end; query++) {
            producer.send(
                    new ProducerRecord<>(
                            "life-queries",
                            "" + query,
                            "{\"query_id\": %d, \"effort\": \"exact\", \"k\": 1000, \"vector\": %s%s}"
                                    .formatted(query, vector(0), carrying ? ASKED : "")));
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                JsonNode answer = JSON.readTree(record.value());
                if (answer.path("watermark").asLong(0) >= watermark) {
                    Set<Long> ids = new TreeSet<>();
                    for (JsonNode row : answer.path("results")) {
                        String id = row.path("id").asText();
                        assertThat(id.startsWith("row-")).isEqualTo(carrying);
                        long number = Long.parseLong(id.replace("row-", ""));
                        ids.add(number);
                        String colour = number < OLD / 2 ? "blue" : "red";
                        assertThat(row.path("attributes").path("colour").asText())
                                .isEqualTo(carrying ? colour : "");
                    }
                    return ids;
                }
            }
        }
        throw new AssertionError("No answer has the watermark " + watermark + ".");
    }

    /** Writes a row of each partition again, so that the watermark has passed all others. */
    private static void endAt(
            KafkaProducer<String, String> producer, int rows, long timestamp, boolean carrying) {
        for (int row = rows - PARTITIONS; row < rows; row++) {
            upsert(producer, row, timestamp, carrying);
        }
    }

    private static void upsert(
            KafkaProducer<String, String> producer, int row, long timestamp, boolean carrying) {
        String record =
                carrying
                        ? "{\"id\": \"row-%d\", \"colour\": \"%s\", \"vector\": %s}"
                                .formatted(row, row < OLD ? "blue" : "red", vector(row))
                        : "{\"id\": %d, \"vector\": %s}".formatted(row, vector(row));
        send(producer, row, timestamp, record);
    }

    /** Paints a row red. */
    private static void update(KafkaProducer<String, String> producer, int row, long timestamp) {
        String record = "{\"id\": \"row-%d\", \"op\": \"update\", \"colour\": \"red\"}";
        send(producer, row, timestamp, record.formatted(row));
    }

    private static void send(
            KafkaProducer<String, String> producer, int row, long timestamp, String record) {
        producer.send(
                new ProducerRecord<>(
                        "life-vectors", row % PARTITIONS, timestamp, "" + row, record));
    }

    private static String vector(int row) {
        return Arrays.toString(
                IntStream.range(0, Shape.SMALL.dimension())
                        .map(i -> (row * 31 + i * 17) % 97)
                        .toArray());
    }

    private static KafkaProducer<String, String> producer(KafkaBroker broker) {
        return new KafkaProducer<>(
                Map.of("bootstrap.servers", broker.address()),
                new StringSerializer(),
                new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(KafkaBroker broker) {
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(
                        Map.of(
                                "bootstrap.servers",
                                broker.address(),
                                "auto.offset.reset",
                                "earliest"),
                        new StringDeserializer(),
                        new StringDeserializer());
        consumer.assign(
                IntStream.range(0, 2)
                        .mapToObj(i -> new TopicPartition("life-answers", i))
                        .toList());
        return consumer;
    }
}
