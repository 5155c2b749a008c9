package io.vstream.flink.ingest;

import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * The order of an answer from a group, as {@link io.vstream.nativecore.Asked#order} has it: words,
 * a rank expression and its parameters.
 */
public final class AnswerOrder {

    private static final ObjectMapper JSON = new ObjectMapper();

    private AnswerOrder() {}

    /**
     * The order in JSON; empty if it is by distance alone.
     *
     * @param text words, or null
     * @param rank expression, or null
     * @param parameters of the expression by name
     * @param vector true if the query has one
     */
    public static String json(
            String text, String rank, Map<String, Double> parameters, boolean vector) {
        if (text == null && rank == null) {
            return "";
        }
        ObjectNode order = JSON.createObjectNode().put("vector", vector);
        if (text != null) {
            order.put("text", text);
        }
        if (rank != null) {
            order.put("rank", rank);
        }
        ObjectNode values = order.putObject("parameters");
        parameters.forEach(values::put);
        return order.toString();
    }
}
