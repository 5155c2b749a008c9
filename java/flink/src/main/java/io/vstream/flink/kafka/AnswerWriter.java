package io.vstream.flink.kafka;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.RowJson;
import io.vstream.flink.merge.Shortened;
import io.vstream.flink.row.Schema;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Writes an answer as one record. The key is the query's id as decimal text, so that answers to one
 * id keep their order and can be compacted. The value is JSON:
 *
 * <pre>{@code
 * {"query_id": 7,
 *  "results": [{"rank": 1, "id": 42, "distance": 0.25}, ...],
 *  "partial": false,
 *  "watermark": 1763769600000,
 *  "offsets": {"0": 1200, "1": 1187}}
 * }</pre>
 *
 * <p>A result has {@code "attributes": {"price": 9.5}} and {@code "payload"} as well if the query
 * asked for some, see {@link RowJson}.
 *
 * <p>Every vector record with a timestamp up to {@code watermark} (milliseconds since 1970, null if
 * not known yet) and every one before {@code offsets} (the next offset by partition of the topic of
 * vectors) was applied before the search. Later ones may have been. Once, when the first template
 * moves the rows that came before it, a row may be missed while it moves.
 *
 * <p>A distance that is not finite is null.
 *
 * <p>The producer refuses a record that is longer than {@code max.request.size}, and the job would
 * fail again after each restart. So a longer answer says less, see {@link #fitting}.
 *
 * <p>In Avro the value says the same by {@link AnswerAvro#schema}; under a registry it begins with
 * Confluent's header.
 */
public final class AnswerWriter implements KafkaRecordSerializationSchema<Answer> {

    private static final long serialVersionUID = 1L;

    private final String topic;
    private final boolean isAvro;
    private final String registry;
    private final Schema rows;
    private final int valueBytesMax;

    private transient AnswerAvro avro;

    /**
     * @param output where answers go, and how they are written
     * @param rows schema of the collection
     * @throws IllegalArgumentException if answers in Avro cannot carry what rows do, or if no
     *     answer has room in a record
     */
    public AnswerWriter(KafkaOutput output, Schema rows) {
        if (output.avro()) {
            AnswerAvro.schema(rows);
        }
        this.rows = rows;
        topic = output.topic();
        isAvro = output.avro();
        registry = output.schemaRegistry();
        valueBytesMax = output.valueBytesMax();
    }

    @Override
    public void open(
            SerializationSchema.InitializationContext context, KafkaSinkContext sinkContext) {
        if (isAvro) {
            avro = new AnswerAvro(registry, topic, rows);
        }
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
            Answer answer, KafkaSinkContext context, Long timestamp) {
        String key = Long.toUnsignedString(answer.ticket().queryId());
        return new ProducerRecord<>(topic, utf8(key), fitting(answer));
    }

    /**
     * The value of an answer, or the first of these that is short enough: with what half, a quarter
     * and so on of its rows carry, and {@code left_out} in the others; the first half, quarter and
     * so on of its rows, as a partial answer; no row, and no offsets. Each takes half of the time
     * of the one before it.
     */
    private byte[] fitting(Answer answer) {
        byte[] value = value(answer);
        Answer shown = answer;
        int whole = RowJson.carry(answer) ? answer.rows().length : 0;
        while (value.length > valueBytesMax && whole > 0) {
            whole /= 2;
            shown = Shortened.carrying(shown, whole);
            value = value(shown);
        }
        int size = answer.ids().length;
        while (value.length > valueBytesMax && size > 0) {
            size /= 2;
            shown = Shortened.first(shown, size);
            value = value(shown);
        }
        return value.length > valueBytesMax ? value(Shortened.empty(answer)) : value;
    }

    private byte[] value(Answer answer) {
        return isAvro ? avro.value(answer) : utf8(json(answer));
    }

    /** The value of an answer in JSON. */
    static String json(Answer answer) {
        StringBuilder json = new StringBuilder(128 + answer.ids().length * 48);
        json.append("{\"query_id\":").append(Long.toUnsignedString(answer.ticket().queryId()));
        json.append(",\"results\":[");
        for (int i = 0; i < answer.ids().length; i++) {
            json.append(i == 0 ? "" : ",").append("{\"rank\":").append(i + 1);
            RowJson.id(answer, i, json.append(",\"id\":"));
            RowJson.number(answer.distances()[i], json.append(",\"distance\":"));
            if (RowJson.carry(answer)) {
                json.append(RowJson.fields(answer.rows()[i]));
            }
            json.append('}');
        }
        json.append("],\"partial\":").append(answer.partial());
        Frontier frontier = answer.frontier();
        boolean timed = frontier.watermark() != Frontier.NO_TIME;
        json.append(",\"watermark\":").append(timed ? frontier.watermark() : "null");
        json.append(",\"offsets\":{");
        String between = "";
        for (int i = 0; i < frontier.offsets().length; i++) {
            if (frontier.offsets()[i] != Frontier.NO_OFFSET) {
                json.append(between).append('"').append(i).append("\":");
                json.append(frontier.offsets()[i]);
                between = ",";
            }
        }
        return json.append("}}").toString();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
