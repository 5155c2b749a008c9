package io.vstream.flink.ingest;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.row.Schema;
import java.io.IOException;
import java.math.BigInteger;
import java.util.Arrays;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonToken;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.StreamReadFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.json.JsonReadFeature;

/**
 * Reads JSON lines: {@code {"id":1,"vector":[..]}}, {@code {"id":1,"op":"delete"}} and {@code
 * {"query_id":1,"vector":[..],"k":10,"effort":"auto"}}. Unknown fields are skipped. Not for several
 * threads.
 *
 * <p>A vector record may also have {@code attributes}, {@code payload} or {@code payload_base64},
 * {@code "op":"update"} without a vector, and {@code "if":{"newer":17}}; a query {@code filter},
 * {@code with} and {@code radius}: see {@link FieldsParser}. Where rows are in groups, both name
 * their {@code group}, a query may have {@code text}, {@code rank} and {@code parameters}, and
 * {@code {"op":"drop-group","group":"ann"}} removes one. Where records come with texts, a text
 * stands in place of the vector.
 */
public final class LineParser {

    /** Longest vector worth reading; one more than the largest dimension shows that it is wrong. */
    public static final int VECTOR_MAX = 4_097;

    /**
     * The fast parser of numbers rounds as the slow one does: 6.6 became 4.7 us of CPU per line of
     * 100 numbers. {@code NaN} and {@code Infinity} are read, so that they are refused for what
     * they are.
     */
    private static final JsonFactory JSON =
            JsonFactory.builder()
                    .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
                    .build();

    private final int defaultK;
    private final FieldsParser extras;
    private float[] floats = new float[128];

    /**
     * A parser of records without attributes.
     *
     * @param defaultK neighbours of a query that does not say
     */
    public LineParser(int defaultK) {
        this(defaultK, Schema.PLAIN);
    }

    /**
     * @param defaultK neighbours of a query that does not say
     * @param schema of the collection
     */
    public LineParser(int defaultK, Schema schema) {
        this.defaultK = defaultK;
        extras = new FieldsParser(schema);
    }

    /** Reads what a record has beside id and vector. */
    public FieldsParser extras() {
        return extras;
    }

    /**
     * Reads {@code record.line} into the other fields and sets its kind.
     *
     * @return why the line was refused, or null
     */
    public Reason parse(Incoming record) {
        try {
            return parse(JSON.createParser(record.line), record);
        } catch (IOException e) {
            throw new IllegalStateException("Reading a line in memory cannot fail.", e);
        }
    }

    /** Does {@link #parse(Incoming)} from {@code json} in place of the line; closes it. */
    public Reason parse(JsonParser from, Incoming record) {
        record.clearExtras();
        extras.begin();
        Reason reason = read(from, record);
        if (reason != null) {
            record.problem = extras.problem();
        }
        return reason;
    }

    private Reason read(JsonParser from, Incoming record) {
        boolean query = record.kind == Incoming.Kind.QUERY_LINE;
        Fields fields = new Fields();
        try (JsonParser json = from) {
            if (json.nextToken() != JsonToken.START_OBJECT) {
                return Reason.MALFORMED_LINE;
            }
            while (json.nextToken() == JsonToken.FIELD_NAME) {
                String name = json.currentName();
                json.nextToken();
                Reason reason = field(name, json, record, fields, query);
                if (reason != null) {
                    return reason;
                }
            }
            if (json.currentToken() != JsonToken.END_OBJECT || json.nextToken() != null) {
                return Reason.MALFORMED_LINE;
            }
        } catch (JsonProcessingException e) {
            return Reason.MALFORMED_LINE;
        } catch (IOException e) {
            throw new IllegalStateException("Reading a line in memory cannot fail.", e);
        }
        return finish(record, fields, query);
    }

    private Reason field(
            String name, JsonParser json, Incoming record, Fields fields, boolean query)
            throws IOException {
        if (name.equals(query ? "query_id" : "id")) {
            fields.id = true;
            return !query && extras.textIds() ? extras.id(json, record) : id(json, record);
        }
        if (extras.isText(name, query)) {
            fields.vector = json.currentToken() != JsonToken.VALUE_NULL;
            return fields.vector ? extras.text(json, record) : null;
        }
        return query ? ofQuery(name, json, record, fields) : ofRow(name, json, record, fields);
    }

    private Reason ofRow(String name, JsonParser json, Incoming record, Fields fields)
            throws IOException {
        switch (name) {
            case "vector":
                if (extras.ofTexts()) {
                    return extras.vectorForText();
                }
                // A row in which only other columns have changed may come with null.
                fields.vector = json.currentToken() != JsonToken.VALUE_NULL;
                return fields.vector ? vector(json, record) : null;
            case "op":
                fields.op = json.getText();
                return null;
            case "if":
                return extras.condition(json, record);
            case "group":
                return extras.group(json, record);
            default:
                fields.where |= name.equals("where") && !extras.isAttribute(name);
                if (extras.carriesNothing()) {
                    json.skipChildren();
                    return null;
                }
                return ofFields(name, json);
        }
    }

    private Reason ofFields(String name, JsonParser json) throws IOException {
        switch (name) {
            case "attributes":
                return extras.attributes(json);
            case "payload":
                return extras.payload(json);
            case "payload_base64":
                return extras.binaryPayload(json);
            default:
                if (extras.isAttribute(name)) {
                    return extras.attribute(name, json);
                }
                json.skipChildren();
                return null;
        }
    }

    private Reason ofQuery(String name, JsonParser json, Incoming record, Fields fields)
            throws IOException {
        switch (name) {
            case "vector":
                if (extras.ofTexts()) {
                    return extras.vectorForText();
                }
                fields.vector = true;
                return vector(json, record);
            case "k":
                fields.k = true;
                // A fraction or a word is as wrong as a k that is out of range.
                record.k = json.currentToken() == JsonToken.VALUE_NUMBER_INT ? clamp(json) : 0;
                return null;
            case "effort":
                fields.effort = true;
                return effort(json, record);
            case "filter":
                return extras.filter(json, record);
            case "with":
                return extras.with(json, record);
            case "radius":
                return extras.radius(json, record);
            case "group":
                return extras.group(json, record);
            case "text", "rank", "parameters":
                return extras.order(json);
            default:
                json.skipChildren();
                return null;
        }
    }

    private Reason finish(Incoming record, Fields fields, boolean query) {
        if (fields.where && "delete".equals(fields.op)) {
            return extras.deleteByFilter();
        }
        boolean drop = !query && extras.grouped() && "drop-group".equals(fields.op);
        if (!fields.id && !drop) {
            return Reason.MALFORMED_LINE;
        }
        if (query) {
            record.kind = Incoming.Kind.QUERY;
            record.k = fields.k ? record.k : defaultK;
            record.effort = fields.effort ? record.effort : 0;
            record.order = extras.order(fields.vector);
            if (!fields.vector && !record.order.isEmpty()) {
                record.vector = new float[0];
                return null;
            }
            return fields.vector ? null : Reason.MALFORMED_LINE;
        }
        record.kind =
                switch (fields.op == null ? "upsert" : fields.op) {
                    case "upsert" -> Incoming.Kind.UPSERT;
                    case "update" -> Incoming.Kind.UPDATE;
                    case "delete" -> Incoming.Kind.DELETE;
                    default -> drop ? Incoming.Kind.DROP_GROUP : null;
                };
        boolean lacksVector = record.kind == Incoming.Kind.UPSERT && !fields.vector;
        if (record.kind == null || lacksVector) {
            record.kind = Incoming.Kind.UNREADABLE;
            return Reason.MALFORMED_LINE;
        }
        extras.finish(record);
        return null;
    }

    private static Reason id(JsonParser json, Incoming record) throws IOException {
        if (json.currentToken() != JsonToken.VALUE_NUMBER_INT) {
            return Reason.BAD_ID;
        }
        BigInteger id = json.getBigIntegerValue();
        if (id.signum() < 0 || id.bitLength() > Long.SIZE) {
            return Reason.BAD_ID;
        }
        record.id = id.longValue();
        return null;
    }

    private static Reason effort(JsonParser json, Incoming record) throws IOException {
        if (json.currentToken() == JsonToken.VALUE_NUMBER_INT) {
            int leaves = clamp(json);
            record.effort = leaves;
            return leaves < 1 ? Reason.BAD_EFFORT : null;
        }
        String word = json.currentToken() == JsonToken.VALUE_STRING ? json.getText() : "";
        record.effort = word.equals("exact") ? -1 : 0;
        return word.equals("exact") || word.equals("auto") ? null : Reason.BAD_EFFORT;
    }

    private static int clamp(JsonParser json) throws IOException {
        BigInteger value = json.getBigIntegerValue();
        return value.bitLength() < Integer.SIZE ? value.intValue() : -1;
    }

    private Reason vector(JsonParser json, Incoming record) throws IOException {
        if (json.currentToken() != JsonToken.START_ARRAY) {
            return Reason.MALFORMED_LINE;
        }
        int length = 0;
        while (json.nextToken() != JsonToken.END_ARRAY) {
            if (!json.currentToken().isNumeric()) {
                return Reason.MALFORMED_LINE;
            }
            if (length == floats.length) {
                floats = Arrays.copyOf(floats, length * 2);
            }
            floats[length++] = json.getFloatValue();
            if (length > VECTOR_MAX) {
                return Reason.WRONG_DIMENSION;
            }
        }
        if (record.vector.length != length) {
            record.vector = new float[length];
        }
        System.arraycopy(floats, 0, record.vector, 0, length);
        return null;
    }

    /** Which fields a line had. */
    private static final class Fields {
        private boolean id;
        private boolean vector;
        private boolean k;
        private boolean effort;
        private boolean where;
        private String op;
    }
}
