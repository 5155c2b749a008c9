package io.vstream.flink.kafka;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.LineParser;
import io.vstream.flink.row.Schema;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.serialization.DeserializationSchema.InitializationContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Reads the records of a topic. What cannot be read is passed on as such and never fails the job.
 *
 * <table>
 *   <caption>Formats</caption>
 *   <tr><th>format<th>vector record<th>delete<th>query
 *   <tr><td>json<td>value as in {@link LineParser}, key not read
 *       <td>{@code "op":"delete"}, or no value and the id as decimal text in the key
 *       <td>value as in {@link LineParser}, key not read
 *   <tr><td>raw<td>key: id, 8 bytes big-endian, or UTF-8 where ids are texts; value: 4-byte little-endian floats
 *       <td>no value<td>the same, the key is the query's id
 *   <tr><td>debezium<td>event with op c, r or u; the row is {@code after}
 *       <td>event with op d, or no value; the id is that of {@code before} or of the key<td>none
 *   <tr><td>avro<td>record as in {@link AvroFields}, behind Confluent's header if there is a registry
 *       <td>{@code deleted} is true, or no value and the id in the key: decimal text or an Avro long
 *       behind the header<td>record as in {@link AvroFields}
 * </table>
 */
final class RecordReader implements KafkaRecordDeserializationSchema<Incoming> {

    private static final long serialVersionUID = 1L;

    /**
     * Longer values, beside their payload, are refused: 4,096 numbers of 20 characters need 80 KiB,
     * schemas more.
     */
    static final int VALUE_BYTES_MAX = 1 << 20;

    private static final int RAW_BYTES_MAX = LineParser.VECTOR_MAX * Float.BYTES;
    private static final int SHOWN_BYTES = 200;
    private static final long MILLI_NANOS = 1_000_000;

    private final KafkaInput.Format format;
    private final String schema;
    private final String registry;
    private final boolean queries;
    private final int defaultK;
    private final Schema rows;

    private transient LineParser parser;
    private transient Debezium debezium;
    private transient AvroReader avro;
    private transient Incoming reused;

    /**
     * @param input what is read
     * @param queries true for queries, false for vector records
     * @param defaultK neighbours of a query that does not say
     * @param rows what rows of the collection carry
     */
    RecordReader(KafkaInput input, boolean queries, int defaultK, Schema rows) {
        this.format = input.format();
        this.schema = input.schema();
        this.registry = input.schemaRegistry();
        this.queries = queries;
        this.defaultK = defaultK;
        this.rows = rows;
    }

    @Override
    public void open(InitializationContext context) {
        parser = new LineParser(defaultK, rows);
        debezium = new Debezium(parser, rows);
        if (format == KafkaInput.Format.AVRO) {
            avro = new AvroReader(schema, registry, queries, defaultK, rows);
        }
        reused = new Incoming();
    }

    @Override
    public TypeInformation<Incoming> getProducedType() {
        return Incoming.TYPE;
    }

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> from, Collector<Incoming> out) {
        Incoming record = reused;
        record.line = "";
        record.reason = null;
        record.clearExtras();
        record.partition = from.partition();
        record.offset = from.offset();
        record.intendedNanos = from.timestamp() * MILLI_NANOS;
        record.measured = true;
        Reason reason = read(from.key(), from.value(), record);
        if (reason != null) {
            record.kind = Incoming.Kind.UNREADABLE;
            record.reason = reason;
            record.line = describe(from);
        }
        out.collect(record);
    }

    private Reason read(byte[] key, byte[] value, Incoming record) {
        // In JSON a payload may take twice its bytes.
        if (value != null && value.length > VALUE_BYTES_MAX + 2 * rows.payloadMax()) {
            return Reason.LINE_TOO_LONG;
        }
        if (value == null) {
            return queries ? Reason.MALFORMED_LINE : tombstone(key, record);
        }
        return switch (format) {
            case RAW -> raw(key, value, record);
            case DEBEZIUM -> debezium.read(key, value, record);
            case JSON -> json(value, record);
            case AVRO -> avro.read(value, record);
        };
    }

    private Reason tombstone(byte[] key, Incoming record) {
        record.kind = Incoming.Kind.DELETE;
        if (key == null) {
            return Reason.BAD_ID;
        }
        return switch (format) {
            case RAW -> rawId(key, record);
            case DEBEZIUM -> debezium.id(key, record);
            case JSON -> textId(key, record);
            case AVRO -> avro.isAvro(key) ? avro.id(key, record) : textId(key, record);
        };
    }

    private Reason json(byte[] value, Incoming record) {
        record.kind = queries ? Incoming.Kind.QUERY_LINE : Incoming.Kind.VECTOR_LINE;
        record.line = new String(value, StandardCharsets.UTF_8);
        Reason reason = parser.parse(record);
        record.line = "";
        return reason;
    }

    private Reason raw(byte[] key, byte[] value, Incoming record) {
        record.kind = queries ? Incoming.Kind.QUERY : Incoming.Kind.UPSERT;
        record.k = defaultK;
        record.effort = 0;
        if (value.length % Float.BYTES != 0) {
            return Reason.MALFORMED_LINE;
        }
        if (value.length > RAW_BYTES_MAX) {
            return Reason.WRONG_DIMENSION;
        }
        int length = value.length / Float.BYTES;
        if (record.vector.length != length) {
            record.vector = new float[length];
        }
        ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(record.vector);
        return rawId(key, record);
    }

    private Reason rawId(byte[] key, Incoming record) {
        if (rows.textIds() && !queries) {
            return key == null ? Reason.BAD_ID : nameId(key, record);
        }
        if (key == null || key.length != Long.BYTES) {
            return Reason.BAD_ID;
        }
        record.id = ByteBuffer.wrap(key).getLong();
        return null;
    }

    private Reason textId(byte[] key, Incoming record) {
        if (rows.textIds()) {
            return nameId(key, record);
        }
        try {
            record.id = Long.parseUnsignedLong(new String(key, StandardCharsets.UTF_8).strip());
            return null;
        } catch (NumberFormatException e) {
            return Reason.BAD_ID;
        }
    }

    /** An id that is a text: the bytes of the key. */
    private Reason nameId(byte[] key, Incoming record) {
        parser.extras().begin();
        String name;
        try {
            name = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(key)).toString();
        } catch (CharacterCodingException e) {
            return Reason.BAD_ID;
        }
        Reason reason = parser.extras().id(name, record);
        if (reason == null) {
            parser.extras().finish(record);
        }
        return reason;
    }

    private String describe(ConsumerRecord<byte[], byte[]> from) {
        String origin = from.topic() + "/" + from.partition() + "@" + from.offset();
        byte[] value = from.value();
        if (value == null) {
            return origin + " without a value";
        }
        if (format == KafkaInput.Format.RAW || format == KafkaInput.Format.AVRO) {
            return origin + " of " + value.length + " bytes";
        }
        int shown = Math.min(value.length, SHOWN_BYTES);
        return origin + ": " + new String(value, 0, shown, StandardCharsets.UTF_8);
    }
}
