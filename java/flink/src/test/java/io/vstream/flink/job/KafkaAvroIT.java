package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.kafka.AvroRecords;
import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.kafka.RegistryStub;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.util.Utf8;
import org.apache.flink.api.common.JobID;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Records in Avro through topics of a real broker, with and without a registry. */
class KafkaAvroIT {

    private static final int ROWS = 40;
    private static final int DELETED = 17;
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final Schema VECTOR = schema("id", "\"long\"", "");
    private static final Schema QUERY = schema("query_id", "\"long\"", "");

    /** Rows with texts as ids, an attribute that may be missing, one that is there, a payload. */
    private static final Schema PRODUCT =
            schema(
                    "id",
                    "\"string\"",
                    """
                    , {"name": "price", "type": ["null", "double"], "default": null},
                      {"name": "since", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                      {"name": "payload", "type": "bytes"}
                    """);

    private static final Schema QUESTION =
            schema(
                    "query_id",
                    "\"long\"",
                    """
                    , {"name": "filter", "type": "string"},
                      {"name": "with", "type": {"type": "array", "items": "string"}}
                    """);

    /** What docs/guide/avro.md says. */
    private static final String ANSWER =
            """
            {"type": "record", "name": "Answer", "namespace": "io.vstream", "fields": [
              {"name": "query_id", "type": "long"},
              {"name": "results", "type": {"type": "array", "items":
                {"type": "record", "name": "Result", "fields": [
                  {"name": "rank", "type": "int"},
                  {"name": "id", "type": "long"},
                  {"name": "distance", "type": "float"}]}}},
              {"name": "partial", "type": "boolean"},
              {"name": "watermark", "type": ["null", "long"], "default": null},
              {"name": "offsets", "type": {"type": "map", "values": "long"}}]}
            """;

    /** Offsets of an answer that has every row and the delete behind it. */
    private static final Map<Utf8, Long> ALL = Map.of(new Utf8("0"), ROWS + 1L);

    @TempDir private Path folder;

    /** Plain rows by schemas of the job file; those that carry something by a registry's. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void recordsComeAndAnswersLeaveInAvro(boolean registered) throws Exception {
        try (KafkaBroker broker = KafkaBroker.start(folder.resolve("broker"));
                RegistryStub registry = new RegistryStub()) {
            broker.create(Map.of("vectors", 1, "queries", 1, "answers", 1));
            StreamExecutionEnvironment env =
                    TopicsFixture.program(
                            json(broker.address(), registered ? registry.address() : null));
            try (LocalCluster cluster = new LocalCluster(1, 1)) {
                JobID id = cluster.submit(env, "avro");
                GenericRecord answer = ask(broker.address(), registered ? registry : null);
                assertThat(answer.get("query_id")).isEqualTo(1L);
                if (registered) {
                    checkCarried((List<?>) answer.get("results"));
                } else {
                    assertThat(ids(answer)).containsExactly(DELETED - 1L, DELETED + 1L);
                }
                assertThat(answer.get("partial")).isEqualTo(false);
                assertThat(answer.get("offsets")).isEqualTo(ALL);
                cluster.cancel(id);
            }
        }
    }

    private static void checkCarried(List<?> results) {
        assertThat(results).hasSize(2);
        for (int i = 0; i < 2; i++) {
            GenericRecord result = (GenericRecord) results.get(i);
            // Rows with odd numbers have a price, and the filter asks for it.
            int row = i == 0 ? DELETED - 2 : DELETED + 2;
            assertThat(result.get("id")).hasToString("row-" + row);
            GenericRecord attributes = (GenericRecord) result.get("attributes");
            assertThat(attributes.get("price")).isEqualTo(row / 2.0);
            assertThat(attributes.get("since")).isNull();
            assertThat(result.get("payload")).isEqualTo(ByteBuffer.wrap(new byte[] {(byte) row}));
            assertThat(result.get("left_out")).isEqualTo(false);
        }
    }

    /** Writes rows on a line and deletes one; asks for its neighbours until all is behind them. */
    private static GenericRecord ask(String brokers, RegistryStub registry) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer =
                        TopicsFixture.producer(brokers, new ByteArraySerializer());
                KafkaConsumer<byte[], byte[]> consumer =
                        TopicsFixture.answers(brokers, new ByteArrayDeserializer())) {
            for (int row = 0; row < ROWS; row++) {
                byte[] value = registry == null ? plain(row) : product(row, registry);
                producer.send(new ProducerRecord<>("vectors", key(row, registry), value));
            }
            producer.send(new ProducerRecord<>("vectors", key(DELETED, registry), null));
            byte[] query = query(registry);
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (System.nanoTime() < end) {
                producer.send(new ProducerRecord<>("queries", query));
                producer.flush();
                for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    GenericRecord answer = answer(record.value(), registry);
                    if (answer.get("offsets").equals(ALL)) {
                        return answer;
                    }
                }
            }
            throw new AssertionError("No answer has all records behind it.");
        }
    }

    private static GenericRecord answer(byte[] value, RegistryStub registry) throws Exception {
        Schema schema =
                new Schema.Parser()
                        .parse(
                                registry == null
                                        ? ANSWER
                                        : registry.schema(ByteBuffer.wrap(value).getInt(1)));
        return AvroRecords.read(schema, value, registry == null ? 0 : 5);
    }

    private static List<Long> ids(GenericRecord answer) {
        List<Long> ids = new ArrayList<>();
        for (Object result : (List<?>) answer.get("results")) {
            ids.add((Long) ((GenericRecord) result).get("id"));
        }
        return ids;
    }

    private static byte[] plain(int row) throws Exception {
        return AvroRecords.bytes(record(VECTOR, row).set("id", (long) row).build());
    }

    private static byte[] product(int row, RegistryStub registry) throws Exception {
        GenericRecord product =
                record(PRODUCT, row)
                        .set("id", "row-" + row)
                        .set("price", row % 2 == 0 ? null : row / 2.0)
                        .set("since", 1_700_000_000_000L + row)
                        .set("payload", ByteBuffer.wrap(new byte[] {(byte) row}))
                        .build();
        return AvroRecords.framed(registry.add(PRODUCT.toString()), AvroRecords.bytes(product));
    }

    private static byte[] query(RegistryStub registry) throws Exception {
        Schema schema = registry == null ? QUERY : QUESTION;
        GenericRecordBuilder query = record(schema, DELETED - 0.1f).set("query_id", 1L);
        if (registry == null) {
            return AvroRecords.bytes(query.build());
        }
        query.set("with", List.of("price", "payload"));
        query.set("filter", "{\"must\":[{\"key\":\"price\",\"range\":{\"gt\":0}}]}");
        return AvroRecords.framed(
                registry.add(schema.toString()), AvroRecords.bytes(query.build()));
    }

    private static GenericRecordBuilder record(Schema schema, float at) {
        return new GenericRecordBuilder(schema).set("vector", List.of(at, 1f));
    }

    private static byte[] key(long id, RegistryStub registry) {
        String key = registry == null ? Long.toString(id) : "row-" + id;
        return key.getBytes(StandardCharsets.UTF_8);
    }

    private static Schema schema(String id, String type, String more) {
        return new Schema.Parser()
                .parse(
                        """
                        {"type": "record", "name": "Row", "fields": [
                          {"name": "@I", "type": @T},
                          {"name": "vector", "type": {"type": "array", "items": "float"}}@M]}
                        """
                                .replace("@I", id)
                                .replace("@T", type)
                                .replace("@M", more));
    }

    private static String json(String brokers, String registry) {
        ObjectMapper json = new ObjectMapper();
        String from =
                registry == null ? "\"schema\": @S" : "\"schema-registry\": \"" + registry + "\"";
        return """
        {"name": "avro", "parallelism": 1,
         "collection": {"dimension": 2, "metric": "l2", "element": "f32", "index": "cluster",
                        "seed": 7@R, "encoder": {"kind": "id"}},
         "vectors": {"kind": "kafka", "brokers": "@B", "topic": "vectors", "group": "g",
                     "format": "avro", @V, "start": "earliest", "out-of-orderness": 0,
                     "idle-after": 1000, "properties": {}},
         "queries": {"kind": "kafka", "brokers": "@B", "topic": "queries", "group": "g",
                     "format": "avro", @Q, "start": "earliest", "k": 2, "properties": {}},
         "results": {"kind": "kafka", "brokers": "@B", "topic": "answers", "format": "avro", @A
                     "delivery": "at-least-once", "properties": {}}}
        """
                .replace("@V", from.replace("@S", json.valueToTree(VECTOR.toString()).toString()))
                .replace("@Q", from.replace("@S", json.valueToTree(QUERY.toString()).toString()))
                .replace("@A", registry == null ? "" : from + ",")
                .replace(
                        "@R",
                        registry == null
                                ? ""
                                : ", \"id\": \"string\", \"attributes\":"
                                        + " {\"price\": \"f64\", \"since\": \"timestamp\"}")
                .replace("@B", brokers);
    }
}
