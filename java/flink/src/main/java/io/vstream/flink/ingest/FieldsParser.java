package io.vstream.flink.ingest;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.row.FieldsBuilder;
import io.vstream.flink.row.JsonCopy;
import io.vstream.flink.row.Refusal;
import io.vstream.flink.row.Schema;
import io.vstream.flink.row.Texts;
import io.vstream.nativecore.RowFields;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonToken;

/**
 * Reads the parts of a JSON record beside number ids and vectors: ids that are texts, attributes,
 * payload, condition, and what a query asks. Not for several threads.
 *
 * <p>Attributes stand in the object {@code attributes}, where each must be one of the collection,
 * or beside {@code id} and {@code vector} under their own names, where other names are skipped.
 */
public final class FieldsParser {

    /** Most names that a query may ask for: more than a collection has attributes. */
    public static final int WITH_MAX = 300;

    /** Most parameters of a rank expression. */
    private static final int PARAMETERS_MAX = 64;

    /** A value that no attribute has. */
    private static final Object NO_VALUE = new Object();

    private static final float[] NO_VECTOR = new float[0];

    private static final JsonFactory JSON = new JsonFactory();

    private final FieldsBuilder fields;
    private final ByteArrayOutputStream text = new ByteArrayOutputStream();
    private final Map<String, Double> parameters = new LinkedHashMap<>();
    private String searched;
    private String rank;
    private String problem = "";

    /** A parser of records of this schema. */
    public FieldsParser(Schema schema) {
        fields = new FieldsBuilder(schema);
    }

    /** Forgets the last record. */
    public void begin() {
        fields.clear();
        problem = "";
        searched = null;
        rank = null;
        parameters.clear();
    }

    /** What the fields are collected in. */
    public FieldsBuilder builder() {
        return fields;
    }

    /** What was refused last, in words; empty if nobody said. */
    public String problem() {
        return problem;
    }

    /** True if rows carry nothing: what they say beside id and vector is skipped. */
    boolean carriesNothing() {
        return fields.schema().isPlain();
    }

    /** True if ids are texts. */
    boolean textIds() {
        return fields.schema().textIds();
    }

    /** True if rows are in groups. */
    boolean grouped() {
        return fields.schema().grouped();
    }

    /** True if records come with a text in place of a vector. */
    boolean ofTexts() {
        return !fields.schema().textKey().isEmpty();
    }

    /** True if a record has its text under that name. */
    boolean isText(String name, boolean query) {
        return ofTexts() && name.equals(query ? "text" : fields.schema().textKey());
    }

    /** Reads a text that stands in place of a vector. */
    Reason text(JsonParser json, Incoming record) throws IOException {
        boolean whole =
                json.currentToken() == JsonToken.VALUE_STRING && Texts.isWhole(json.getText());
        if (!whole) {
            problem = "the text of a record is a text without half characters";
            return Reason.MALFORMED_LINE;
        }
        record.text = json.getText();
        record.vector = NO_VECTOR;
        return null;
    }

    /** Refuses a vector where a text is to be embedded. */
    Reason vectorForText() {
        problem = "a record of this job has a text, and no vector";
        return Reason.MALFORMED_LINE;
    }

    /** Reads the name of a group. Where rows are in none, it may be that of an attribute. */
    Reason group(JsonParser json, Incoming record) throws IOException {
        if (!grouped()) {
            if (isAttribute("group")) {
                return attribute("group", json);
            }
            json.skipChildren();
            return null;
        }
        if (json.currentToken() != JsonToken.VALUE_STRING) {
            problem = "a group is a text";
            return Reason.BAD_GROUP;
        }
        record.group = json.getText();
        return null;
    }

    /** Reads a part of the order of an answer. Where rows are in no groups it is skipped. */
    Reason order(JsonParser json) throws IOException {
        if (!grouped() || json.currentToken() == JsonToken.VALUE_NULL) {
            json.skipChildren();
            return null;
        }
        String name = json.currentName();
        if (name.equals("parameters")) {
            return parameters(json);
        }
        if (json.currentToken() != JsonToken.VALUE_STRING) {
            problem = name + " is a text";
            return Reason.BAD_RANK;
        }
        if (name.equals("text")) {
            searched = json.getText();
        } else {
            rank = json.getText();
        }
        return null;
    }

    private Reason parameters(JsonParser json) throws IOException {
        problem = "parameters is an object of numbers";
        if (json.currentToken() != JsonToken.START_OBJECT) {
            return Reason.BAD_RANK;
        }
        while (json.nextToken() == JsonToken.FIELD_NAME) {
            String name = json.currentName();
            if (!json.nextToken().isNumeric() || parameters.size() == PARAMETERS_MAX) {
                return Reason.BAD_RANK;
            }
            parameters.put(name, json.getDoubleValue());
        }
        problem = "";
        return null;
    }

    /** The order that was read; empty for none. */
    String order(boolean vector) {
        return AnswerOrder.json(searched, rank, parameters, vector);
    }

    /** Reads an id that is a text. */
    Reason id(JsonParser json, Incoming record) throws IOException {
        if (json.currentToken() != JsonToken.VALUE_STRING) {
            return Reason.BAD_ID;
        }
        return id(json.getText(), record);
    }

    /** Takes an id that is a text. */
    public Reason id(String name, Incoming record) {
        Refusal refusal = fields.name(name);
        if (refusal == null) {
            record.id = fields.id();
        }
        return noted(refusal);
    }

    /** True if a name beside {@code id} and {@code vector} is that of an attribute. */
    boolean isAttribute(String name) {
        return fields.schema().column(name) >= 0;
    }

    /** Reads the object {@code attributes}. */
    Reason attributes(JsonParser json) throws IOException {
        if (json.currentToken() != JsonToken.START_OBJECT) {
            return json.currentToken() == JsonToken.VALUE_NULL ? null : Reason.WRONG_TYPE;
        }
        while (json.nextToken() == JsonToken.FIELD_NAME) {
            String name = json.currentName();
            json.nextToken();
            Reason reason = attribute(name, json);
            if (reason != null) {
                return reason;
            }
        }
        return null;
    }

    /** Reads the value of an attribute. */
    Reason attribute(String name, JsonParser json) throws IOException {
        if (fields.has(name)) {
            problem = "the attribute '" + name + "' is there twice";
            return Reason.MALFORMED_LINE;
        }
        return noted(fields.set(name, value(json)));
    }

    /** Sets an attribute to a value of any type; null is none. */
    public Reason set(String name, Object value) {
        return noted(fields.set(name, value));
    }

    /** Sets the payload. */
    public Reason payload(byte[] bytes) {
        return noted(fields.payload(bytes));
    }

    /** Reads a payload of any JSON; null is none, and removes that of an updated row. */
    Reason payload(JsonParser json) throws IOException {
        if (json.currentToken() == JsonToken.VALUE_NULL) {
            fields.removePayload();
            return null;
        }
        return noted(fields.payload(copy(json)));
    }

    /** Reads a payload of bytes in base 64. */
    Reason binaryPayload(JsonParser json) throws IOException {
        if (json.currentToken() == JsonToken.VALUE_STRING) {
            try {
                return noted(fields.payload(Base64.getDecoder().decode(json.getText())));
            } catch (IllegalArgumentException e) {
                // Said below.
            }
        }
        problem = "payload_base64 is a text in base 64";
        return Reason.WRONG_TYPE;
    }

    /** Reads a condition: {@code {"newer": 17}}. */
    Reason condition(JsonParser json, Incoming record) throws IOException {
        problem = "a condition is {\"newer\": a whole number}";
        if (json.currentToken() != JsonToken.START_OBJECT
                || json.nextToken() != JsonToken.FIELD_NAME
                || !json.currentName().equals("newer")
                || json.nextToken() != JsonToken.VALUE_NUMBER_INT
                || json.getBigIntegerValue().bitLength() >= Long.SIZE
                || json.getLongValue() == Incoming.ANY_ORDER) {
            return Reason.MALFORMED_LINE;
        }
        record.newer = json.getLongValue();
        if (json.nextToken() != JsonToken.END_OBJECT) {
            return Reason.MALFORMED_LINE;
        }
        problem = "";
        return null;
    }

    /** Refuses a delete with a filter, which is not to be taken for a delete by id. */
    Reason deleteByFilter() {
        problem = "a job deletes by id, not by a filter";
        return Reason.BAD_FILTER;
    }

    /** Reads the filter of a query: an object. */
    Reason filter(JsonParser json, Incoming record) throws IOException {
        if (json.currentToken() == JsonToken.VALUE_NULL) {
            return null;
        }
        if (json.currentToken() != JsonToken.START_OBJECT) {
            problem = "a filter is an object";
            return Reason.BAD_FILTER;
        }
        record.filter = new String(copy(json), StandardCharsets.UTF_8);
        return null;
    }

    /** Reads what rows of the answer are to carry: a list of names. */
    Reason with(JsonParser json, Incoming record) throws IOException {
        problem = "\"with\" is a list of names";
        if (json.currentToken() != JsonToken.START_ARRAY) {
            return Reason.MALFORMED_LINE;
        }
        List<String> names = new ArrayList<>();
        while (json.nextToken() != JsonToken.END_ARRAY) {
            if (json.currentToken() != JsonToken.VALUE_STRING || names.size() == WITH_MAX) {
                return Reason.MALFORMED_LINE;
            }
            names.add(json.getText());
        }
        problem = "";
        record.with = names.toArray(String[]::new);
        return null;
    }

    /** Reads the largest distance of a row. */
    Reason radius(JsonParser json, Incoming record) throws IOException {
        boolean number = json.currentToken().isNumeric();
        record.radius = number ? json.getFloatValue() : Float.NaN;
        return Float.isFinite(record.radius) ? null : Reason.BAD_RADIUS;
    }

    /** Fills the fields of a record of a known kind. */
    public void finish(Incoming record) {
        record.fields =
                switch (record.kind) {
                    case UPSERT -> fields.row();
                    case UPDATE -> fields.change();
                    case DELETE -> fields.nameAlone();
                    default -> RowFields.NONE;
                };
    }

    private Reason noted(Refusal refusal) {
        if (refusal != null) {
            problem = fields.problem();
        }
        return Reason.of(refusal);
    }

    private byte[] copy(JsonParser json) throws IOException {
        text.reset();
        try (JsonGenerator out = JSON.createGenerator(text)) {
            JsonCopy.value(json, out);
        }
        return text.toByteArray();
    }

    private static Object value(JsonParser json) throws IOException {
        return switch (json.currentToken()) {
            case VALUE_NULL -> null;
            case VALUE_STRING -> json.getText();
            case VALUE_TRUE -> true;
            case VALUE_FALSE -> false;
            case VALUE_NUMBER_INT -> json.getNumberValue();
            case VALUE_NUMBER_FLOAT -> json.getDoubleValue();
            case START_ARRAY -> texts(json);
            default -> {
                json.skipChildren();
                yield NO_VALUE;
            }
        };
    }

    private static Object texts(JsonParser json) throws IOException {
        List<String> texts = new ArrayList<>();
        boolean all = true;
        while (json.nextToken() != JsonToken.END_ARRAY) {
            all &= json.currentToken() == JsonToken.VALUE_STRING;
            if (all) {
                texts.add(json.getText());
            }
            json.skipChildren();
        }
        return all ? texts : NO_VALUE;
    }
}
