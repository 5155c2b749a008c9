package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.dataflow.SearchDataflow;
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
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
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
    private static final Schema VECTOR = schema("id");
    private static final Schema QUERY = schema("query_id");

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

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void recordsComeAndAnswersLeaveInAvro(boolean registered) throws Exception {
        try (KafkaBroker broker = KafkaBroker.start(folder.resolve("broker"));
                RegistryStub registry = new RegistryStub()) {
            broker.create(Map.of("vectors", 1, "queries", 1, "answers", 1));
            JobSettings job =
                    JobSettings.fromJson(
                            json(broker.address(), registered ? registry.address() : null));
            Sources.checkBrokers(job);
            StreamExecutionEnvironment env =
                    StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
            VStreamJob.addSink(
                    job,
                    SearchDataflow.add(env, job.dataflow(), Sources.add(env, job, "", false))
                            .answers());
            try (LocalCluster cluster = new LocalCluster(1, 1)) {
                JobID id = cluster.submit(env, "avro");
                GenericRecord answer = ask(broker.address(), registered ? registry : null);
                assertThat(answer.get("query_id")).isEqualTo(1L);
                assertThat(ids(answer)).containsExactly(DELETED - 1L, DELETED + 1L);
                assertThat(answer.get("partial")).isEqualTo(false);
                assertThat(answer.get("offsets")).isEqualTo(ALL);
                cluster.cancel(id);
            }
        }
    }

    /** Writes rows on a line and deletes one; asks for its neighbours until all is behind them. */
    private static GenericRecord ask(String brokers, RegistryStub registry) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(
                                Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers),
                                new ByteArraySerializer(),
                                new ByteArraySerializer());
                KafkaConsumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(
                                Map.of(
                                        ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG,
                                        brokers,
                                        ConsumerConfig.AUTO_OFFSET_RESET_CONFIG,
                                        "earliest"),
                                new ByteArrayDeserializer(),
                                new ByteArrayDeserializer())) {
            consumer.assign(List.of(new TopicPartition("answers", 0)));
            for (int row = 0; row < ROWS; row++) {
                byte[] value = value(VECTOR, "id", row, row, registry);
                producer.send(new ProducerRecord<>("vectors", key(row), value));
            }
            producer.send(new ProducerRecord<>("vectors", key(DELETED), null));
            byte[] query = value(QUERY, "query_id", 1, DELETED - 0.1f, registry);
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

    private static byte[] value(
            Schema schema, String id, long number, float at, RegistryStub registry)
            throws Exception {
        byte[] bytes =
                AvroRecords.bytes(
                        new GenericRecordBuilder(schema)
                                .set(id, number)
                                .set("vector", List.of(at, 1f))
                                .build());
        return registry == null
                ? bytes
                : AvroRecords.framed(registry.add(schema.toString()), bytes);
    }

    private static byte[] key(long id) {
        return Long.toString(id).getBytes(StandardCharsets.UTF_8);
    }

    private static Schema schema(String id) {
        return new Schema.Parser()
                .parse(
                        """
                        {"type": "record", "name": "Row", "fields": [
                          {"name": "@I", "type": "long"},
                          {"name": "vector", "type": {"type": "array", "items": "float"}}]}
                        """
                                .replace("@I", id));
    }

    private static String json(String brokers, String registry) {
        ObjectMapper json = new ObjectMapper();
        String from =
                registry == null ? "\"schema\": @S" : "\"schema-registry\": \"" + registry + "\"";
        return """
        {"name": "avro", "parallelism": 1,
         "collection": {"dimension": 2, "metric": "l2", "element": "f32", "index": "cluster",
                        "seed": 7, "encoder": {"kind": "id"}},
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
                .replace("@B", brokers);
    }
}
