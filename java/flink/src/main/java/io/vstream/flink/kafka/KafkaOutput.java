package io.vstream.flink.kafka;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

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
