package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.kafka.KafkaInput.Format;
import io.vstream.flink.row.Schema;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RecordReaderTest {

    @Test
    void everyRecordSaysWhereItComesFrom() {
        Incoming record = read(Format.JSON, false, null, utf8("{\"id\":7,\"vector\":[1,2.5]}"));
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
        assertThat(record.id).isEqualTo(7);
        assertThat(record.vector).containsExactly(1, 2.5f);
        assertThat(record.partition).isEqualTo(3);
        assertThat(record.offset).isEqualTo(41);
        assertThat(record.intendedNanos).isEqualTo(1_700_000_000_000L * 1_000_000);
    }

    @Test
    void aRecordWithoutAValueDeletesTheIdOfItsKey() {
        Incoming json = read(Format.JSON, false, utf8("18446744073709551615"), null);
        assertThat(json.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(json.id).isEqualTo(-1);
        Incoming raw = read(Format.RAW, false, bigEndian(1L << 40), null);
        assertThat(raw.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(raw.id).isEqualTo(1L << 40);
        Incoming event = read(Format.DEBEZIUM, false, utf8("{\"payload\":{\"id\":9}}"), null);
        assertThat(event.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(event.id).isEqualTo(9);
        refuses(Reason.BAD_ID, Format.JSON, false, "-1", null);
        refuses(Reason.BAD_ID, Format.JSON, false, null, null);
        refuses(Reason.BAD_ID, Format.RAW, false, "7", null);
        refuses(Reason.BAD_ID, Format.DEBEZIUM, false, "{\"id\":\"x\"}", null);
        refuses(Reason.MALFORMED_LINE, Format.JSON, true, "7", null);
    }

    @Test
    void rawValuesAreLittleEndianFloats() {
        byte[] value = floats(1.5f, -0f, Float.NaN);
        Incoming vector = read(Format.RAW, false, bigEndian(5), value);
        assertThat(vector.kind).isEqualTo(Incoming.Kind.UPSERT);
        // Decode refuses NaN, by the same rule for every source.
        assertThat(vector.vector).containsExactly(1.5f, -0f, Float.NaN);
        Incoming query = read(Format.RAW, true, bigEndian(5), value);
        assertThat(query.kind).isEqualTo(Incoming.Kind.QUERY);
        assertThat(query.k).isEqualTo(10);
        assertThat(query.effort).isZero();
        refuses(Reason.MALFORMED_LINE, Format.RAW, false, "12345678", "12345");
        refuses(Reason.BAD_ID, Format.RAW, false, "1234567", "1234");
        refuses(Reason.BAD_ID, Format.RAW, false, null, "1234");
        refuses(Reason.WRONG_DIMENSION, Format.RAW, false, "12345678", "1234".repeat(4_098));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{'op':'c','after':{'id':4,'vector':[1,2],'name':'a'}} | UPSERT",
                "{'op':'r','before':null,'after':{'id':4,'vector':'[1, 2]'}} | UPSERT",
                "{'schema':{},'payload':{'op':'u','after':{'id':4,'vector':[1,2]}}} | UPSERT",
                "{'op':'u','after':{'id':4,'vector':[1,2],'op':'delete'}} | UPSERT",
                "{'op':'d','before':{'id':4},'after':null} | DELETE",
                "{'op':'d','before':null,'after':null} | DELETE",
            })
    void changeEventsAreRead(String event, Incoming.Kind kind) {
        Incoming record =
                read(Format.DEBEZIUM, false, utf8("{\"id\":4}"), utf8(event.replace('\'', '"')));
        assertThat(record.kind).isEqualTo(kind);
        assertThat(record.id).isEqualTo(4);
        if (kind == Incoming.Kind.UPSERT) {
            assertThat(record.vector).containsExactly(1, 2);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{'op':'t'} | MALFORMED_LINE",
                "{'op':'c','after':null} | MALFORMED_LINE",
                "{'op':'c','after':{'id':4,'vector':'[1,'}} | MALFORMED_LINE",
                "{'op':'c','after':{'id':4,'vector':{}}} | MALFORMED_LINE",
                "{'op':'c','after':{'id':-4,'vector':[1]}} | BAD_ID",
                "{'op':'d','before':{'id':1.5}} | BAD_ID",
                "[1] | MALFORMED_LINE",
                "{'op':'c' | MALFORMED_LINE",
            })
    void changeEventsThatAreNoneAreRefused(String event, Reason reason) {
        refuses(reason, Format.DEBEZIUM, false, "{\"id\":4}", event.replace('\'', '"'));
    }

    @Test
    void whatCannotBeReadIsPassedOnWithItsPlace() {
        Incoming record = read(Format.JSON, false, null, utf8("not json"));
        assertThat(record.kind).isEqualTo(Incoming.Kind.UNREADABLE);
        assertThat(record.reason).isEqualTo(Reason.MALFORMED_LINE);
        assertThat(record.line).isEqualTo("t/3@41: not json");
        byte[] huge = new byte[RecordReader.VALUE_BYTES_MAX + 1];
        assertThat(read(Format.JSON, false, null, huge).reason).isEqualTo(Reason.LINE_TOO_LONG);
    }

    @Test
    void aReaderForgetsTheRecordBefore() {
        RecordReader reader = reader(Format.JSON, true);
        read(reader, utf8("1"), utf8("{\"query_id\":1,\"vector\":[1],\"k\":3,\"effort\":9}"));
        read(reader, utf8("1"), utf8("nothing"));
        Incoming record = read(reader, utf8("1"), utf8("{\"query_id\":2,\"vector\":[1]}"));
        assertThat(record.kind).isEqualTo(Incoming.Kind.QUERY);
        assertThat(record.reason).isNull();
        assertThat(record.line).isEmpty();
        assertThat(record.k).isEqualTo(10);
        assertThat(record.effort).isZero();
    }

    private static void refuses(
            Reason reason, Format format, boolean queries, String key, String value) {
        Incoming record =
                read(
                        format,
                        queries,
                        key == null ? null : utf8(key),
                        value == null ? null : utf8(value));
        assertThat(record.kind).isEqualTo(Incoming.Kind.UNREADABLE);
        assertThat(record.reason).isEqualTo(reason);
    }

    private static Incoming read(Format format, boolean queries, byte[] key, byte[] value) {
        return read(reader(format, queries), key, value);
    }

    private static RecordReader reader(Format format, boolean queries) {
        KafkaInput input =
                new KafkaInput(
                        "",
                        "t",
                        "g",
                        format,
                        null,
                        null,
                        KafkaInput.Start.EARLIEST,
                        0,
                        1,
                        Map.of());
        RecordReader reader = new RecordReader(input, queries, 10, Schema.PLAIN);
        reader.open(null);
        return reader;
    }

    private static Incoming read(RecordReader reader, byte[] key, byte[] value) {
        Incoming[] read = new Incoming[1];
        reader.deserialize(
                new ConsumerRecord<>(
                        "t",
                        3,
                        41,
                        1_700_000_000_000L,
                        TimestampType.CREATE_TIME,
                        0,
                        0,
                        key,
                        value,
                        new RecordHeaders(),
                        Optional.empty()),
                new Collector<>() {
                    @Override
                    public void collect(Incoming record) {
                        read[0] = record;
                    }

                    @Override
                    public void close() {}
                });
        return read[0];
    }

    private static byte[] bigEndian(long id) {
        return ByteBuffer.allocate(Long.BYTES).putLong(id).array();
    }

    private static byte[] floats(float... vector) {
        ByteBuffer bytes =
                ByteBuffer.allocate(vector.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asFloatBuffer().put(vector);
        return bytes.array();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
