package io.vstream.flink.kafka;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/**
 * A topic that answers are written to, as the settings schema describes it.
 *
 * @param brokers {@code host:port}, separated by commas
 * @param topic of the answers
 * @param avro true to write Avro, false to write JSON
 * @param schemaRegistry HTTP address of the registry of the schema, or null
 * @param exactlyOnce true to commit answers with checkpoints, false to send them at once
 * @param transactionalIdPrefix begins the names of the job's transactions; null without them
 * @param transactionTimeoutMillis after which the broker aborts a transaction that nobody ended
 * @param properties further properties of the client
 */
public record KafkaOutput(
        String brokers,
        String topic,
        boolean avro,
        String schemaRegistry,
        boolean exactlyOnce,
        String transactionalIdPrefix,
        long transactionTimeoutMillis,
        Map<String, String> properties) {

    /** Room in a record for its key, which is a number, and for what Kafka puts around both. */
    private static final int AROUND_BYTES = 512;

    /** An answer that says nothing has fewer bytes. */
    private static final int VALUE_BYTES_LEAST = 512;

    /** Reads a normalised section. */
    public static KafkaOutput fromJson(JsonNode output) {
        JsonNode prefix = output.path("transactional-id-prefix");
        return new KafkaOutput(
                output.path("brokers").asText(),
                output.path("topic").asText(),
                output.path("format").asText("json").equals("avro"),
                registry(output),
                output.path("delivery").asText("exactly-once").equals("exactly-once"),
                prefix.isTextual() ? prefix.asText() : null,
                output.path("transaction-timeout").asLong(900_000),
                properties(output));
    }

    /**
     * Bytes of the value of a record that the producer takes.
     *
     * @throws IllegalArgumentException with a sentence if {@code max.request.size} or {@code
     *     buffer.memory} is no number, or too small for any answer
     */
    int valueBytesMax() {
        long record =
                Math.min(
                        bytes(ProducerConfig.MAX_REQUEST_SIZE_CONFIG),
                        bytes(ProducerConfig.BUFFER_MEMORY_CONFIG));
        if (record < AROUND_BYTES + VALUE_BYTES_LEAST) {
            throw new IllegalArgumentException(
                    "results.properties: max.request.size and buffer.memory are at least "
                            + (AROUND_BYTES + VALUE_BYTES_LEAST)
                            + ", as an answer has no room in less. Raise the one that is smaller.");
        }
        return (int) Math.min(Integer.MAX_VALUE, record) - AROUND_BYTES;
    }

    private long bytes(String property) {
        ConfigDef.ConfigKey known = ProducerConfig.configDef().configKeys().get(property);
        String given = properties.get(property);
        try {
            Object value =
                    given == null
                            ? known.defaultValue
                            : ConfigDef.parseType(property, given, known.type);
            return ((Number) value).longValue();
        } catch (ConfigException e) {
            throw new IllegalArgumentException("results.properties: " + e.getMessage(), e);
        }
    }

    static String registry(JsonNode section) {
        JsonNode registry = section.path("schema-registry");
        return registry.isTextual() ? registry.asText() : null;
    }

    static Map<String, String> properties(JsonNode section) {
        Map<String, String> properties = new HashMap<>();
        section.path("properties")
                .fields()
                .forEachRemaining(
                        field -> properties.put(field.getKey(), field.getValue().asText()));
        return properties;
    }
}
