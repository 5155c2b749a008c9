package io.vstream.flink.row;

import java.io.IOException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParseException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;

/** Copies JSON without spaces and with every digit of its numbers. */
public final class JsonCopy {

    private JsonCopy() {}

    /**
     * Copies the value at which {@code from} stands; then it stands at the end of that value.
     *
     * @throws JsonParseException if a number is none, as JSON has no NaN
     */
    public static void value(JsonParser from, JsonGenerator to) throws IOException {
        int depth = 0;
        while (true) {
            if (from.currentToken().isNumeric() && from.isNaN()) {
                throw new JsonParseException(from, "JSON has no such number");
            }
            to.copyCurrentEventExact(from);
            if (from.currentToken().isStructStart()) {
                depth++;
            } else if (from.currentToken().isStructEnd()) {
                depth--;
            }
            if (depth == 0) {
                return;
            }
            if (from.nextToken() == null) {
                throw new JsonParseException(from, "the text ends within a value");
            }
        }
    }
}
