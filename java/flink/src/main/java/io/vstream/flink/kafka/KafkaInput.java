package io.vstream.flink.kafka;

import io.vstream.flink.row.Schema;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * A topic that is read, as the settings schema describes it.
 *
 * @param brokers {@code host:port}, separated by commas
 * @param topic all of its partitions are read
 * @param group offsets are committed under this name
 * @param format what the records are
 * @param schema of records in Avro, as JSON; null if the registry has it or there is none
 * @param schemaRegistry HTTP address of the registry of their schemas, or null
 * @param start where a job without a checkpoint begins
 * @param outOfOrdernessMillis the watermark is that much behind the newest timestamp
 * @param idleAfterMillis a partition that is silent for so long holds back no watermark
 * @param properties further properties of the client
 */
public record KafkaInput(
        String brokers,
        String topic,
        String group,
        Format format,
        String schema,
        String schemaRegistry,
        Start start,
        long outOfOrdernessMillis,
        long idleAfterMillis,
        Map<String, String> properties) {

    /** How a record is written; see {@link RecordReader}. */
    public enum Format {
        /** A JSON object. */
        JSON,
        /** Little-endian floats. */
        RAW,
        /** A change event. */
        DEBEZIUM,
        /** An Avro record. */
        AVRO
    }

    /** Where reading begins. */
    public enum Start {
        /** With the oldest record. */
        EARLIEST,
        /** With the next record. */
        LATEST,
        /** Where the group stands, or with the oldest record. */
        COMMITTED
    }

    /**
     * Reads a normalised section.
     *
     * @param queries true for queries, false for vector records
     * @param rows what rows of the collection carry
     * @throws IllegalArgumentException with a sentence if there is an Avro schema that is none
     */
    public static KafkaInput fromJson(JsonNode input, boolean queries, Schema rows) {
        JsonNode schema = input.path("schema");
        if (schema.isTextual()) {
            AvroReader.check(schema.asText(), queries, rows);
        }
        return new KafkaInput(
                input.path("brokers").asText(),
                input.path("topic").asText(),
                input.path("group").asText(),
                Format.valueOf(input.path("format").asText("json").toUpperCase(Locale.ROOT)),
                schema.isTextual() ? schema.asText() : null,
                KafkaOutput.registry(input),
                Start.valueOf(input.path("start").asText("earliest").toUpperCase(Locale.ROOT)),
                input.path("out-of-orderness").asLong(1_000),
                input.path("idle-after").asLong(5_000),
                KafkaOutput.properties(input));
    }
}
