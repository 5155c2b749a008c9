package io.vstream.flink.merge;

/**
 * Answers as JSON lines. Ids are unsigned; distances have nine digits at most, enough for f32, and
 * are null where they are not finite.
 */
public final class AnswerJson {

    private AnswerJson() {}

    /**
     * One line without its end: {@code
     * {"query_id":..,"ids":[..],"distances":[..],"partial":false}}; before {@code partial} stands
     * {@code "rows":[{"attributes":{..},"payload":..}]} if rows carry some.
     *
     * @param type written as a first field {@code "type"}, or null for none
     */
    public static String line(Answer answer, String type) {
        StringBuilder line = new StringBuilder(64 + answer.ids().length * 32).append('{');
        if (type != null) {
            line.append("\"type\":\"").append(type).append("\",");
        }
        line.append("\"query_id\":").append(Long.toUnsignedString(answer.ticket().queryId()));
        line.append(",\"ids\":[");
        for (int i = 0; i < answer.ids().length; i++) {
            RowJson.id(answer, i, line.append(i == 0 ? "" : ","));
        }
        line.append("],\"distances\":[");
        for (int i = 0; i < answer.distances().length; i++) {
            RowJson.number(answer.distances()[i], line.append(i == 0 ? "" : ","));
        }
        line.append(']');
        if (RowJson.carry(answer)) {
            line.append(",\"rows\":[");
            for (int i = 0; i < answer.rows().length; i++) {
                line.append(i == 0 ? "{" : ",{");
                String fields = RowJson.fields(answer.rows()[i]);
                line.append(fields.isEmpty() ? "" : fields.substring(1)).append('}');
            }
            line.append(']');
        }
        return line.append(",\"partial\":").append(answer.partial()).append('}').toString();
    }
}
