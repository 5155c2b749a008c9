package io.vstream.flink.kafka;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.LineParser;
import io.vstream.flink.row.AttributeKind;
import io.vstream.flink.row.Schema;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.MissingNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Reads change events of Debezium in JSON, with or without their schema around them.
 *
 * <p>The row needs the columns {@code id} and {@code vector}. A vector is an array of numbers or,
 * as connectors send a type that they do not know, its text {@code "[1,2]"}. Columns named like
 * attributes of the collection are its attributes, and {@code payload} is its payload; others are
 * skipped. Where the event has its schema, the times of Debezium (in micro- or nanoseconds, or
 * days) become timestamps. A row whose vector the database has not sent, because it did not change,
 * is an update of the rest. Not for several threads.
 */
final class Debezium {

    private static final ObjectMapper JSON = new ObjectMapper();

    /** Means something in a line, and is an ordinary column here. */
    private static final String LINE_OP = "op";

    private static final String LINE_IF = "if";

    /** Postgres sends this for a large column that did not change. */
    private static final String UNAVAILABLE = "__debezium_unavailable_value";

    private static final long MICROS = 1_000;
    private static final long NANOS = 1_000_000;
    private static final long DAY_MILLIS = 86_400_000;

    private final LineParser parser;
    private final Schema rows;

    Debezium(LineParser parser, Schema rows) {
        this.parser = parser;
        this.rows = rows;
    }

    /** Reads an event into {@code record}; returns why it was refused, or null. */
    Reason read(byte[] key, byte[] value, Incoming record) {
        try {
            JsonNode message = JSON.readTree(value);
            JsonNode event = payload(message);
            return switch (event.path("op").asText()) {
                case "c", "r", "u" -> upsert(event.path("after"), message, record);
                case "d" -> delete(event.path("before"), key, record);
                default -> Reason.MALFORMED_LINE;
            };
        } catch (IOException e) {
            // The bytes may also be no text at all, such as those of another converter.
            return Reason.MALFORMED_LINE;
        }
    }

    /** Reads the id of a key: {@code {"id":1}} or a number. */
    Reason id(byte[] key, Incoming record) {
        JsonNode id = columns(key);
        if (record.group.isEmpty()) {
            record.group = group(id);
        }
        return id(id.isObject() ? id.path("id") : id, record);
    }

    private Reason upsert(JsonNode row, JsonNode message, Incoming record) throws IOException {
        if (!(row instanceof ObjectNode columns)) {
            return Reason.MALFORMED_LINE;
        }
        columns.remove(LINE_OP);
        columns.remove(LINE_IF);
        JsonNode vector = columns.path("vector");
        if (vector.asText().equals(UNAVAILABLE)) {
            columns.remove("vector");
            columns.put(LINE_OP, "update");
        } else if (vector.isTextual()) {
            columns.set("vector", JSON.readTree(vector.asText()));
        }
        if (!rows.isPlain() && !fields(columns, message)) {
            record.clearExtras();
            record.problem = "a column that did not change was not sent: REPLICA IDENTITY FULL";
            return Reason.MALFORMED_LINE;
        }
        record.kind = Incoming.Kind.VECTOR_LINE;
        return parser.parse(columns.traverse(), record);
    }

    /**
     * Turns columns into what a line says of attributes and payload; false if a column of a row
     * that is replaced is unknown.
     */
    private boolean fields(ObjectNode columns, JsonNode message) {
        // An ordinary column, unless the collection has an attribute of that name.
        if (rows.column("attributes") < 0) {
            columns.remove("attributes");
        }
        for (String name : names(columns)) {
            boolean known = rows.column(name) >= 0 || name.equals("payload");
            if (known && columns.path(name).asText().equals(UNAVAILABLE)) {
                columns.remove(name);
                if (!columns.path(LINE_OP).asText().equals("update")) {
                    return false;
                }
            }
        }
        JsonNode payload = columns.path("payload");
        if (payload.isTextual()) {
            // What the database has as text or as JSON: its bytes, and not a text around them.
            byte[] bytes = payload.asText().getBytes(StandardCharsets.UTF_8);
            columns.remove("payload");
            columns.put("payload_base64", Base64.getEncoder().encodeToString(bytes));
        }
        for (JsonNode change : message.path("schema").path("fields")) {
            if (change.path("field").asText().equals("after")) {
                for (JsonNode column : change.path("fields")) {
                    time(column.path("field").asText(), column.path("name").asText(), columns);
                }
            }
        }
        return true;
    }

    /** Gives the time of a column in milliseconds. */
    private void time(String column, String type, ObjectNode columns) {
        int at = rows.column(column);
        JsonNode value = columns.path(column);
        boolean isTime = at >= 0 && rows.attribute(at).kind() == AttributeKind.TIMESTAMP;
        if (!isTime || !value.isIntegralNumber()) {
            return;
        }
        switch (type) {
            case "io.debezium.time.MicroTimestamp" ->
                    columns.put(column, Math.floorDiv(value.asLong(), MICROS));
            case "io.debezium.time.NanoTimestamp" ->
                    columns.put(column, Math.floorDiv(value.asLong(), NANOS));
            case "io.debezium.time.Date" -> columns.put(column, value.asLong() * DAY_MILLIS);
            default -> {
                // Milliseconds.
            }
        }
    }

    private static List<String> names(ObjectNode columns) {
        List<String> names = new ArrayList<>();
        columns.fieldNames().forEachRemaining(names::add);
        return names;
    }

    private Reason delete(JsonNode row, byte[] key, Incoming record) {
        record.kind = Incoming.Kind.DELETE;
        record.group = group(row);
        if (!row.hasNonNull("id")) {
            return id(key, record);
        }
        if (record.group.isEmpty()) {
            // Postgres sends the columns of the key alone, and null for others, unless its REPLICA
            // IDENTITY is FULL.
            record.group = group(columns(key));
        }
        return id(row.path("id"), record);
    }

    /** The group in a row or a key; empty, which names none, unless it is a text. */
    private String group(JsonNode columns) {
        JsonNode group = columns.path("group");
        return rows.grouped() && group.isTextual() ? group.asText() : "";
    }

    /** What a key says; nothing if there is no key or it is no JSON. */
    private static JsonNode columns(byte[] key) {
        try {
            return key == null ? MissingNode.getInstance() : payload(JSON.readTree(key));
        } catch (IOException e) {
            return MissingNode.getInstance();
        }
    }

    private Reason id(JsonNode id, Incoming record) {
        if (rows.textIds()) {
            if (!id.isTextual()) {
                return Reason.BAD_ID;
            }
            parser.extras().begin();
            Reason reason = parser.extras().id(id.asText(), record);
            if (reason == null) {
                parser.extras().finish(record);
            }
            return reason;
        }
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
