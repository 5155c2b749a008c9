package io.vstream.flink.kafka;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.LineParser;
import java.io.IOException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Reads change events of Debezium in JSON, with or without their schema around them.
 *
 * <p>The row needs the columns {@code id} and {@code vector}; others are skipped. A vector is an
 * array of numbers or, as connectors send a type that they do not know, its text {@code "[1,2]"}.
 * Not for several threads.
 */
final class Debezium {

    private static final ObjectMapper JSON = new ObjectMapper();

    /** Means something in a line, and is an ordinary column here. */
    private static final String LINE_OP = "op";

    private final LineParser parser;

    Debezium(LineParser parser) {
        this.parser = parser;
    }

    /** Reads an event into {@code record}; returns why it was refused, or null. */
    Reason read(byte[] key, byte[] value, Incoming record) {
        try {
            JsonNode event = payload(JSON.readTree(value));
            return switch (event.path("op").asText()) {
                case "c", "r", "u" -> upsert(event.path("after"), record);
                case "d" -> delete(event.path("before"), key, record);
                default -> Reason.MALFORMED_LINE;
            };
        } catch (JsonProcessingException e) {
            return Reason.MALFORMED_LINE;
        } catch (IOException e) {
            throw new IllegalStateException("Reading bytes in memory cannot fail.", e);
        }
    }

    /** Reads the id of a key: {@code {"id":1}} or a number. */
    Reason id(byte[] key, Incoming record) {
        try {
            JsonNode id = payload(JSON.readTree(key));
            return id(id.isObject() ? id.path("id") : id, record);
        } catch (IOException e) {
            return Reason.BAD_ID;
        }
    }

    private Reason upsert(JsonNode row, Incoming record) throws IOException {
        if (!(row instanceof ObjectNode columns)) {
            return Reason.MALFORMED_LINE;
        }
        columns.remove(LINE_OP);
        JsonNode vector = columns.path("vector");
        if (vector.isTextual()) {
            columns.set("vector", JSON.readTree(vector.asText()));
        }
        record.kind = Incoming.Kind.VECTOR_LINE;
        return parser.parse(columns.traverse(), record);
    }

    private Reason delete(JsonNode row, byte[] key, Incoming record) {
        record.kind = Incoming.Kind.DELETE;
        if (row.has("id")) {
            return id(row.path("id"), record);
        }
        return key == null ? Reason.BAD_ID : id(key, record);
    }

    private static Reason id(JsonNode id, Incoming record) {
        if (!id.isIntegralNumber()
                || id.bigIntegerValue().signum() < 0
                || id.bigIntegerValue().bitLength() > Long.SIZE) {
            return Reason.BAD_ID;
        }
        record.id = id.bigIntegerValue().longValue();
        return null;
    }

    private static JsonNode payload(JsonNode message) {
        return message.has("payload") ? message.path("payload") : message;
    }
}
