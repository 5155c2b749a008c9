package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.LineParser;
import io.vstream.flink.row.AttributeValues;
import io.vstream.flink.row.Shop;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.junit.jupiter.api.Test;

/** Attributes, payloads and ids that are texts in change events and in Avro. */
class FieldsOfRecordsTest {

    private static final Schema ROW =
            new Schema.Parser()
                    .parse(
                            """
                            {"type": "record", "name": "Row", "fields": [
                              {"name": "id", "type": "string"},
                              {"name": "vector", "type":
                                ["null", {"type": "array", "items": "float"}], "default": null},
                              {"name": "title", "type": "string"},
                              {"name": "price", "type": ["null", "double"], "default": null},
                              {"name": "stock", "type": "int"},
                              {"name": "tags", "type": {"type": "array", "items": "string"}},
                              {"name": "since", "type":
                                {"type": "long", "logicalType": "timestamp-micros"}},
                              {"name": "payload", "type": ["null", "bytes"], "default": null},
                              {"name": "update", "type": "boolean", "default": false}]}
                            """);

    private final Incoming record = new Incoming();

    @Test
    void columnsOfAnEventAreAttributes() {
        Debezium events = new Debezium(new LineParser(10, Shop.TEXTS), Shop.TEXTS);
        String schema =
                "'schema':{'fields':[{'field':'before','fields':[]},{'field':'after','fields':["
                        + "{'field':'since','name':'io.debezium.time.MicroTimestamp'}]}]}";
        String row =
                "{'id':'sku-1','vector':'[1,2]','colour':'red','price':9.5,'since':1500,"
                        + "'payload':'{\\'a\\':1}','attributes':7,'other':[1]}";
        assertThat(event(events, "{" + schema + ",'payload':{'op':'c','after':" + row + "}}"))
                .isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
        assertThat(record.fields.name()).isEqualTo("sku-1");
        assertThat(values())
                .isEqualTo(Map.of("colour", "red", "price", 9.5, "since", Instant.ofEpochMilli(1)));
        assertThat(record.fields.payload()).isEqualTo("{\"a\":1}".getBytes(StandardCharsets.UTF_8));

        assertThat(event(events, "{'op':'d','before':{'id':'sku-1'}}")).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(record.fields.name()).isEqualTo("sku-1");
        assertThat(event(events, "{'op':'d','before':{'id':7}}")).isEqualTo(Reason.BAD_ID);
    }

    /**
     * A message of Avro begins with a zero and the number of its schema: as text that is UTF-32.
     */
    @Test
    void bytesThatAreNoTextAreRefused() {
        Debezium events = new Debezium(new LineParser(10, Shop.TEXTS), Shop.TEXTS);
        byte[] avro = {0, 0, 0, 0, 5, 2, 4, (byte) 0xff, 8, 16, 32};
        for (int length = 0; length <= avro.length; length++) {
            byte[] value = Arrays.copyOf(avro, length);
            assertThat(events.read(null, value, record)).isEqualTo(Reason.MALFORMED_LINE);
        }
    }

    @Test
    void aVectorThatWasNotSentIsAnUpdateOfTheRest() {
        Debezium events = new Debezium(new LineParser(10, Shop.NUMBERS), Shop.NUMBERS);
        String gone = "'__debezium_unavailable_value'";
        assertThat(
                        event(
                                events,
                                "{'op':'u','after':{'id':4,'vector':"
                                        + gone
                                        + ",'price':3,'colour':null,'payload':"
                                        + gone
                                        + "}}"))
                .isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPDATE);
        assertThat(values()).isEqualTo(Map.of("price", 3.0));
        assertThat(record.fields.unset()).containsExactly((short) 0);
        assertThat(record.fields.payload()).isNull();
        assertThat(record.fields.payloadRemoved()).isFalse();
        // A row that is replaced would lose what was not sent.
        assertThat(event(events, "{'op':'u','after':{'id':4,'vector':[1],'colour':" + gone + "}}"))
                .isEqualTo(Reason.MALFORMED_LINE);
        assertThat(record.problem).contains("REPLICA IDENTITY FULL");
    }

    @Test
    void fieldsOfAvroAreAttributes() throws Exception {
        AvroReader reader = new AvroReader(ROW.toString(), null, false, 10, Shop.TEXTS);
        assertThat(reader.read(row(List.of(1f, 2f), 9.5, false), record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
        assertThat(record.fields.name()).isEqualTo("sku-1");
        assertThat(record.vector).containsExactly(1, 2);
        assertThat(values())
                .isEqualTo(
                        Map.of(
                                "price",
                                9.5,
                                "stock",
                                3L,
                                "tags",
                                List.of("a", "b"),
                                "since",
                                Instant.ofEpochMilli(1)));
        assertThat(record.fields.payload()).containsExactly(1, 2, 3);
        assertThat(reader.read(row(null, null, true), record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPDATE);
        assertThat(record.fields.unset()).containsExactly((short) 2);
        assertThat(reader.read(row(null, null, false), record)).isEqualTo(Reason.MALFORMED_LINE);
    }

    @Test
    void groupsOfEventsAndOfAvro() throws Exception {
        io.vstream.flink.row.Schema rows =
                io.vstream.flink.row.Schema.fromJson(
                        new ObjectMapper().readTree("{\"groups\":{\"mode\":\"isolated\"}}"));
        Debezium events = new Debezium(new LineParser(10, rows), rows);
        assertThat(event(events, "{'op':'c','after':{'id':4,'group':'ann','vector':[1]}}"))
                .isNull();
        assertThat(record.group).isEqualTo("ann");
        assertThat(event(events, "{'op':'d','before':{'id':4,'group':'bob'}}")).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(record.group).isEqualTo("bob");
        record.clearExtras();
        byte[] key = "{\"id\":4,\"group\":\"eve\"}".getBytes(StandardCharsets.UTF_8);
        assertThat(events.id(key, record)).isNull();
        assertThat(record.group).isEqualTo("eve");

        Schema schema =
                new Schema.Parser()
                        .parse(
                                """
                                {"type": "record", "name": "Row", "fields": [
                                  {"name": "id", "type": "long"},
                                  {"name": "vector", "type": {"type": "array", "items": "float"}},
                                  {"name": "group", "type": "string"},
                                  {"name": "drop_group", "type": "boolean"}]}
                                """);
        AvroReader reader = new AvroReader(schema.toString(), null, false, 10, rows);
        for (boolean drop : new boolean[] {false, true}) {
            byte[] bytes =
                    AvroRecords.bytes(
                            new GenericRecordBuilder(schema)
                                    .set("id", 4L)
                                    .set("vector", List.of(1f))
                                    .set("group", "ann")
                                    .set("drop_group", drop)
                                    .build());
            assertThat(reader.read(bytes, record)).isNull();
            assertThat(record.group).isEqualTo("ann");
            assertThat(record.kind)
                    .isEqualTo(drop ? Incoming.Kind.DROP_GROUP : Incoming.Kind.UPSERT);
        }
    }

    /**
     * Postgres sends null for columns beside the key, unless it is told otherwise: the delete went
     * to a group of the name "null", and the row stayed.
     */
    @Test
    void aDeleteGoesToTheGroupThatItNamesOrToNone() throws Exception {
        io.vstream.flink.row.Schema rows =
                io.vstream.flink.row.Schema.fromJson(
                        new ObjectMapper().readTree("{\"groups\":{\"mode\":\"isolated\"}}"));
        Debezium events = new Debezium(new LineParser(10, rows), rows);
        String[] befores = {
            "{'id':4,'group':null}", "{'id':4,'group':7}", "{'id':4}", "{'id':null}", "null"
        };
        for (String before : befores) {
            String delete = "{'op':'d','before':" + before + "}";
            assertThat(event(events, "{'payload':{'id':4,'group':'eve'}}", delete)).isNull();
            assertThat(record.id).isEqualTo(4);
            assertThat(record.group).as(before).isEqualTo("eve");
            for (String key : new String[] {"{'id':4,'group':null}", "{'id':4}", "4"}) {
                assertThat(event(events, key, delete)).isNull();
                // Decode refuses it, as that of any source.
                assertThat(record.group).as(before + key).isEmpty();
            }
        }
        assertThat(
                        event(
                                events,
                                "{'id':4,'group':'eve'}",
                                "{'op':'d','before':{'id':4,'group':'bob'}}"))
                .isNull();
        assertThat(record.group).isEqualTo("bob");
        String delete = "{'op':'d','before':{'id':4,'group':null}}";
        assertThat(event(events, "no JSON", delete)).isNull();
        assertThat(record.group).isEmpty();
        assertThat(events.id("{\"id\":4,\"group\":null}".getBytes(StandardCharsets.UTF_8), record))
                .isNull();
        assertThat(record.group).isEmpty();
    }

    @Test
    void everyCutAndEveryChangedByteOfAvroIsReadOrRefused() throws Exception {
        AvroReader reader = new AvroReader(ROW.toString(), null, false, 10, Shop.TEXTS);
        byte[] whole = row(List.of(1f, 2f), 9.5, false);
        for (int length = 0; length < whole.length; length++) {
            assertThat(reader.read(Arrays.copyOf(whole, length), record)).isNotNull();
        }
        SplittableRandom random = new SplittableRandom(5);
        for (int round = 0; round < 20_000; round++) {
            byte[] changed = whole.clone();
            for (int i = random.nextInt(4); i >= 0; i--) {
                changed[random.nextInt(changed.length)] = (byte) random.nextInt();
            }
            // Whatever it says, it neither throws nor claims memory.
            reader.read(changed, record);
        }
    }

    private Reason event(Debezium events, String text) {
        return events.read(null, bytes(text), record);
    }

    private Reason event(Debezium events, String key, String text) {
        return events.read(bytes(key), bytes(text), record);
    }

    /** ' stands for ", and within a text \' for \". */
    private static byte[] bytes(String text) {
        return text.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
    }

    private Map<String, Object> values() {
        return AttributeValues.read(Shop.NUMBERS, record.fields.attributes());
    }

    private static byte[] row(List<Float> vector, Double price, boolean update) throws Exception {
        return AvroRecords.bytes(
                new GenericRecordBuilder(ROW)
                        .set("id", "sku-1")
                        .set("vector", vector)
                        .set("title", "a chair")
                        .set("price", price)
                        .set("stock", 3)
                        .set("tags", List.of("a", "b"))
                        .set("since", 1_500L)
                        .set("payload", java.nio.ByteBuffer.wrap(new byte[] {1, 2, 3}))
                        .set("update", update)
                        .build());
    }
}
