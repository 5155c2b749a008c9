package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.metrics.Names;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
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
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Isolated groups in JSON through topics of a real broker: every answer is exact, and of one group.
 */
@Timeout(120)
class KafkaGroupsIT {

    private static final long SEED = 97;
    private static final int DIMENSION = 96;
    private static final int GROUPS = 40;
    private static final int IDS = 60;
    private static final int WRITES = 4_000;
    private static final int K = 7;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final List<String> WORDS = List.of("invoice", "lunch", "holiday", "meeting");
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir private Path folder;

    private final SplittableRandom random = new SplittableRandom(SEED);

    /** The rows of each group by id, as the topic leaves them. */
    private final Map<String, TreeMap<String, Letter>> live = new HashMap<>();

    /** Queries of the last round by number. */
    private final Map<Integer, ObjectNode> asked = new HashMap<>();

    private int number;

    private static final class Letter {
        private float[] vector;
        private String subject;
        private boolean read;
    }

    @Test
    void groupsStayApart() throws Exception {
        try (KafkaBroker broker = KafkaBroker.start(folder.resolve("broker"))) {
            broker.create(Map.of("vectors", 2, "queries", 1, "answers", 1));
            StreamExecutionEnvironment env = TopicsFixture.program(json(broker.address()));
            try (LocalCluster cluster = new LocalCluster(2, 1);
                    KafkaProducer<String, String> producer =
                            TopicsFixture.producer(broker.address(), new StringSerializer());
                    KafkaConsumer<String, String> consumer =
                            TopicsFixture.answers(broker.address(), new StringDeserializer())) {
                JobID id = cluster.submit(env, "groups");
                int written = write(producer);
                check(answers(producer, consumer, written));
                assertThat(cluster.metrics().sums(Names.BAD))
                        .containsEntry("bad_group", 2L)
                        .containsEntry("wrong_type", 1L);
                cluster.cancel(id);
            }
        }
    }

    /** Writes, changes and deletes letters, drops mailboxes; returns how many records there are. */
    private int write(KafkaProducer<String, String> producer) {
        for (int i = 0; i < WRITES; i++) {
            String group = "user-" + random.nextInt(GROUPS);
            TreeMap<String, Letter> letters = live.computeIfAbsent(group, name -> new TreeMap<>());
            String id = "letter/" + random.nextInt(IDS);
            ObjectNode record = JSON.createObjectNode().put("group", group);
            int kind = random.nextInt(100);
            Letter letter = letters.get(id);
            if (kind == 0) {
                letters.clear();
                record.put("op", "drop-group");
            } else if (kind < 15) {
                letters.remove(id);
                record.put("id", id).put("op", "delete");
            } else if (kind < 40 && letter != null) {
                letter.read = !letter.read;
                record.put("id", id).put("op", "update");
                record.putObject("attributes").put("read", letter.read);
            } else {
                letter = new Letter();
                letter.vector = vector();
                letter.subject = WORDS.get(random.nextInt(4)) + " " + WORDS.get(random.nextInt(4));
                letters.put(id, letter);
                record.put("id", id).set("vector", TopicsFixture.array(letter.vector));
                record.putObject("attributes").put("read", false).put("subject", letter.subject);
                record.putObject("payload").put("of", group).put("id", id);
            }
            // All records of a group are in one partition of the topic.
            producer.send(new ProducerRecord<>("vectors", group, record.toString()));
        }
        String dropped = "user-1";
        live.get(dropped).clear();
        List<String> last =
                List.of(
                        "{\"group\":\"user-1\",\"op\":\"drop-group\"}",
                        "{\"id\":\"a\",\"op\":\"delete\"}",
                        "{\"group\":\"user-1\",\"id\":\"a\",\"op\":\"update\",\"read\":3}");
        for (String record : last) {
            producer.send(new ProducerRecord<>("vectors", dropped, record));
        }
        ObjectNode nameless = JSON.createObjectNode().put("query_id", 0);
        producer.send(
                new ProducerRecord<>(
                        "queries",
                        nameless.set("vector", TopicsFixture.array(vector())).toString()));
        return WRITES + last.size();
    }

    /** Asks again until each answer of a round has all records behind it. */
    private List<JsonNode> answers(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            int written)
            throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < end) {
            int from = number;
            asked.clear();
            for (int group = 0; group < GROUPS; group++) {
                ask(producer, "user-" + group, group % 3);
            }
            ask(producer, "nobody", 0);
            producer.flush();
            Map<Integer, JsonNode> round = new TreeMap<>();
            while (round.size() < number - from && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                    JsonNode answer = JSON.readTree(one.value());
                    if (answer.path("query_id").asInt() > from) {
                        round.put(answer.path("query_id").asInt(), answer);
                    }
                }
            }
            if (round.values().stream().allMatch(answer -> offsets(answer) == written)) {
                return List.copyOf(round.values());
            }
        }
        throw new AssertionError("No answers have all records behind them.");
    }

    private static int offsets(JsonNode answer) {
        int sum = 0;
        for (JsonNode one : answer.path("offsets")) {
            sum += one.asInt();
        }
        return sum;
    }

    /** Asks for nearest letters: all, those that are not read, or those with a word. */
    private void ask(KafkaProducer<String, String> producer, String group, int kind)
            throws Exception {
        ObjectNode query = JSON.createObjectNode().put("query_id", ++number).put("group", group);
        query.set("vector", TopicsFixture.array(vector()));
        query.set("with", JSON.createArrayNode().add("read").add("subject").add("payload"));
        if (kind == 1) {
            query.set(
                    "filter",
                    JSON.readTree("{\"must\":[{\"key\":\"read\",\"match\":{\"value\":false}}]}"));
        } else if (kind == 2) {
            query.put("text", "invoice").put("rank", "closeness");
        }
        asked.put(number, query);
        producer.send(new ProducerRecord<>("queries", query.toString()));
    }

    private void check(List<JsonNode> answers) {
        int rows = 0;
        for (JsonNode answer : answers) {
            ObjectNode query = asked.get(answer.path("query_id").asInt());
            String group = query.path("group").asText();
            float[] vector = floats(query.path("vector"));
            TreeMap<String, Letter> letters = live.getOrDefault(group, new TreeMap<>());
            List<String> wanted = new ArrayList<>();
            letters.forEach(
                    (id, letter) -> {
                        boolean unread = !query.has("filter") || !letter.read;
                        boolean has = !query.has("text") || letter.subject.contains("invoice");
                        if (unread && has) {
                            wanted.add(id);
                        }
                    });
            wanted.sort(
                    Comparator.comparingDouble(
                            id -> TopicsFixture.distance(vector, letters.get(id).vector)));
            assertThat(answer.path("partial").asBoolean()).isFalse();
            List<String> found = new ArrayList<>();
            for (JsonNode row : answer.path("results")) {
                String id = row.path("id").asText();
                found.add(id);
                assertThat(row.path("payload").path("of").asText()).isEqualTo(group);
                assertThat(row.path("payload").path("id").asText()).isEqualTo(id);
                assertThat(row.path("attributes").path("read").asBoolean())
                        .isEqualTo(letters.get(id).read);
            }
            rows += found.size();
            assertThat(found)
                    .as("seed %d, %s", SEED, group)
                    .isEqualTo(wanted.subList(0, Math.min(K, wanted.size())));
        }
        assertThat(answers).hasSize(GROUPS + 1);
        assertThat(rows).isGreaterThan(GROUPS);
    }

    private float[] vector() {
        return TopicsFixture.vector(random, DIMENSION);
    }

    private static float[] floats(JsonNode array) {
        float[] vector = new float[array.size()];
        for (int i = 0; i < vector.length; i++) {
            vector[i] = array.get(i).floatValue();
        }
        return vector;
    }

    private static String json(String brokers) {
        return """
        {"name": "groups", "parallelism": 2,
         "collection": {"dimension": @D, "metric": "l2", "element": "f32", "seed": 7,
                        "id": "string", "attributes": {"read": "bool", "subject": "text"},
                        "groups": {"mode": "isolated", "spread-rows": 50000}},
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
