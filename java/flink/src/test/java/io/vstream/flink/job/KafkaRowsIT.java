package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.metrics.Names;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.apache.flink.api.common.JobID;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Rows with texts as ids, attributes and payloads in JSON through topics of a real broker. */
class KafkaRowsIT {

    private static final int DIMENSION = 64;
    private static final int ROWS = 1_000;
    private static final int WRITES = 2_500;
    private static final int BAD = 4;
    private static final int K = 12;
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir private Path folder;

    private final SplittableRandom random = new SplittableRandom(41);
    private final Map<String, float[]> vectors = new TreeMap<>();
    private final Map<String, ObjectNode> rows = new TreeMap<>();

    @Test
    void filteredAnswersCarryWhatWasAskedFor() throws Exception {
        try (KafkaBroker broker = KafkaBroker.start(folder.resolve("broker"))) {
            broker.create(Map.of("vectors", 1, "queries", 1, "answers", 1));
            StreamExecutionEnvironment env = TopicsFixture.program(json(broker.address()));
            try (LocalCluster cluster = new LocalCluster(2, 1)) {
                JobID id = cluster.submit(env, "rows");
                float[] question = vector();
                check(ask(broker.address(), question), question);
                Map<String, Long> bad = cluster.metrics().sums(Names.BAD);
                assertThat(bad)
                        .containsEntry("wrong_type", 1L)
                        .containsEntry("unknown_attribute", 1L)
                        .containsEntry("bad_id", 1L)
                        .containsEntry("malformed_line", 1L)
                        .containsEntry("bad_filter", 1L);
                cluster.cancel(id);
            }
        }
    }

    private JsonNode ask(String brokers, float[] question) throws Exception {
        try (KafkaProducer<String, String> producer =
                        TopicsFixture.producer(brokers, new StringSerializer());
                KafkaConsumer<String, String> consumer =
                        TopicsFixture.answers(brokers, new StringDeserializer())) {
            int written = write(producer);
            ObjectNode query = JSON.createObjectNode().put("query_id", 2).put("effort", "exact");
            query.set("vector", TopicsFixture.array(question));
            query.set(
                    "filter",
                    JSON.readTree(
                            "{\"must\":[{\"key\":\"colour\",\"match\":{\"any\":[\"red\",\"blue\"]}},"
                                + "{\"key\":\"price\",\"range\":{\"gte\":20,\"lt\":70}}]}"));
            query.set("with", JSON.createArrayNode().add("colour").add("price").add("payload"));
            String bad = query.deepCopy().put("filter", "price < 3").toString();
            producer.send(new ProducerRecord<>("queries", bad));
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (System.nanoTime() < end) {
                producer.send(new ProducerRecord<>("queries", query.toString()));
                producer.flush();
                for (ConsumerRecord<String, String> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    JsonNode answer = JSON.readTree(record.value());
                    if (answer.path("offsets").path("0").asInt() == written) {
                        return answer;
                    }
                }
            }
            throw new AssertionError("No answer has all records behind it.");
        }
    }

    /** Writes products, changes of them, deletes and bad records; returns how many. */
    private int write(KafkaProducer<String, String> producer) {
        for (int i = 0; i < WRITES; i++) {
            String id = "sku/" + (i < ROWS ? i : random.nextInt(ROWS));
            int kind = rows.containsKey(id) ? random.nextInt(4) : 0;
            ObjectNode record = JSON.createObjectNode().put("id", id);
            if (kind == 3) {
                rows.remove(id);
                vectors.remove(id);
                producer.send(new ProducerRecord<>("vectors", id, null));
                continue;
            }
            if (kind == 0) {
                float[] vector = vector();
                vectors.put(id, vector);
                rows.put(id, JSON.createObjectNode().set("attributes", JSON.createObjectNode()));
                record.set("vector", TopicsFixture.array(vector));
                String colour = List.of("red", "green", "blue").get(random.nextInt(3));
                attributes(id).put("colour", colour);
                ObjectNode payload = JSON.createObjectNode().put("number", i);
                rows.get(id).set("payload", payload);
                record.put("colour", colour).set("payload", payload);
            } else {
                record.put("op", "update");
            }
            double price = random.nextInt(100);
            attributes(id).put("price", price);
            record.putObject("attributes").put("price", price);
            producer.send(new ProducerRecord<>("vectors", id, record.toString()));
        }
        for (String bad :
                List.of(
                        "{\"id\":\"a\",\"op\":\"update\",\"price\":\"cheap\"}",
                        "{\"id\":\"a\",\"op\":\"update\",\"attributes\":{\"size\":1}}",
                        "{\"id\":7,\"op\":\"delete\"}",
                        "{\"id\":\"a\"}")) {
            producer.send(new ProducerRecord<>("vectors", "a", bad));
        }
        return WRITES + BAD;
    }

    private ObjectNode attributes(String id) {
        return (ObjectNode) rows.get(id).path("attributes");
    }

    private void check(JsonNode answer, float[] question) {
        List<String> expected = new ArrayList<>();
        for (String id : rows.keySet()) {
            double price = attributes(id).path("price").asDouble();
            boolean green = attributes(id).path("colour").asText().equals("green");
            if (!green && price >= 20 && price < 70) {
                expected.add(id);
            }
        }
        expected.sort(
                Comparator.comparingDouble(
                        id -> TopicsFixture.distance(question, vectors.get(id))));
        assertThat(answer.path("partial").asBoolean()).isFalse();
        List<String> found = new ArrayList<>();
        for (JsonNode result : answer.path("results")) {
            String id = result.path("id").asText();
            found.add(id);
            assertThat(result.path("attributes")).isEqualTo(rows.get(id).path("attributes"));
            assertThat(result.path("payload")).isEqualTo(rows.get(id).path("payload"));
        }
        assertThat(found).isEqualTo(expected.subList(0, K));
    }

    private float[] vector() {
        return TopicsFixture.vector(random, DIMENSION);
    }

    private static String json(String brokers) {
        return """
        {"name": "rows", "parallelism": 2,
         "collection": {"dimension": @D, "metric": "l2", "element": "f32", "index": "cluster",
                        "seed": 7, "id": "string",
                        "attributes": {"price": "f64", "colour": "keyword"},
                        "encoder": {"kind": "id"}},
         "vectors": {"kind": "kafka", "brokers": "@B", "topic": "vectors", "group": "g",
                     "start": "earliest", "out-of-orderness": 0, "idle-after": 1000,
                     "properties": {}},
         "queries": {"kind": "kafka", "brokers": "@B", "topic": "queries", "group": "g",
                     "start": "earliest", "k": @K, "properties": {}},
         "results": {"kind": "kafka", "brokers": "@B", "topic": "answers",
                     "delivery": "at-least-once", "properties": {}}}
        """
                .replace("@D", Integer.toString(DIMENSION))
                .replace("@K", Integer.toString(K))
                .replace("@B", brokers);
    }
}
