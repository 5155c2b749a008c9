package io.vstream.flink.merge;

import io.vstream.flink.row.JsonCopy;
import java.io.IOException;
import java.io.StringWriter;
import java.time.Instant;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.io.JsonStringEncoder;

/**
 * Rows of answers as JSON. A timestamp is text in RFC 3339, or milliseconds where its year has more
 * than four digits. A payload that is JSON is written as such, in one line; other bytes stand in
 * base 64 under {@code payload_base64}.
 */
public final class RowJson {

    private static final JsonFactory JSON = new JsonFactory();
    private static final Instant FIRST = Instant.parse("0000-01-01T00:00:00Z");
    private static final Instant LAST = Instant.parse("9999-12-31T23:59:59.999Z");

    private RowJson() {}

    /** Appends the id of a row: a text where ids are texts, else a number. */
    public static void id(Answer answer, int row, StringBuilder out) {
        String text = row < answer.rows().length ? answer.rows()[row].id() : "";
        if (text.isEmpty()) {
            out.append(Long.toUnsignedString(answer.ids()[row]));
        } else {
            quote(text, out);
        }
    }

    /**
     * Appends a distance, or null where JSON has no such number: a rank expression may give an
     * infinite score, and a distance may be too large for 32 bits.
     */
    public static void number(float number, StringBuilder out) {
        if (Float.isFinite(number)) {
            out.append(number);
        } else {
            out.append("null");
        }
    }

    /** True if rows carry more than ids. */
    public static boolean carry(Answer answer) {
        return Arrays.stream(answer.rows())
                .anyMatch(
                        row ->
                                !row.attributes().isEmpty()
                                        || row.payload() != null
                                        || row.leftOut());
    }

    /** What a row carries, each field with a comma before it; empty if nothing. */
    public static String fields(AnswerRow row) {
        StringBuilder out = new StringBuilder();
        if (!row.attributes().isEmpty()) {
            out.append(",\"attributes\":{");
            String between = "";
            for (Map.Entry<String, Object> one : row.attributes().entrySet()) {
                quote(one.getKey(), out.append(between));
                value(one.getValue(), out.append(':'));
                between = ",";
            }
            out.append('}');
        }
        if (row.payload() != null) {
            String json = json(row.payload());
            if (json != null) {
                out.append(",\"payload\":").append(json);
            } else {
                out.append(",\"payload_base64\":\"");
                out.append(Base64.getEncoder().encodeToString(row.payload())).append('"');
            }
        }
        return out.append(row.leftOut() ? ",\"left_out\":true" : "").toString();
    }

    private static void value(Object value, StringBuilder out) {
        if (value instanceof String text) {
            quote(text, out);
        } else if (value instanceof List<?> texts) {
            out.append('[');
            for (int i = 0; i < texts.size(); i++) {
                quote((String) texts.get(i), out.append(i == 0 ? "" : ","));
            }
            out.append(']');
        } else if (value instanceof Instant moment) {
            if (moment.isBefore(FIRST) || moment.isAfter(LAST)) {
                out.append(moment.toEpochMilli());
            } else {
                out.append('"').append(moment).append('"');
            }
        } else {
            // Whole numbers, finite numbers and truth values are JSON as they are.
            out.append(value);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        JsonStringEncoder.getInstance().quoteAsString(text, out);
        out.append('"');
    }

    /** The payload in one line of JSON, or null if it is none. */
    private static String json(byte[] payload) {
        StringWriter text = new StringWriter(payload.length);
        try (JsonParser in = JSON.createParser(payload);
                JsonGenerator out = JSON.createGenerator(text)) {
            if (in.nextToken() == null) {
                return null;
            }
            JsonCopy.value(in, out);
            if (in.nextToken() != null) {
                return null;
            }
        } catch (IOException e) {
            return null;
        }
        return text.toString();
    }
}
