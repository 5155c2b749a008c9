package io.vstream.flink.ingest;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.row.AttributeValues;
import io.vstream.flink.row.Schema;
import io.vstream.flink.row.Shop;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Lines of JSON with more than ids and vectors. In the tables ' stands for ". */
class FieldsParserTest {

    private final LineParser parser = new LineParser(10, Shop.NUMBERS);

    @Test
    void attributesStandInAnObjectOrBesideTheVector() {
        Map<String, Object> values =
                Map.of(
                        "colour",
                        "red",
                        "price",
                        9.0,
                        "stock",
                        3L,
                        "new",
                        true,
                        "tags",
                        List.of("a", "b"),
                        "since",
                        Instant.parse("2024-01-02T03:04:05Z"));
        String fields =
                "'colour':'red','price':9,'stock':3.0,'new':true,'tags':['a','b'],"
                        + "'since':'2024-01-02T03:04:05Z'";
        Incoming nested = read("{'id':1,'vector':[1],'attributes':{" + fields + "}}");
        assertThat(values(nested)).isEqualTo(values);
        Incoming flat = read("{" + fields + ",'id':1,'vector':[1],'weight':{'kg':2}}");
        assertThat(values(flat)).isEqualTo(values);
        assertThat(flat.fields).isEqualTo(nested.fields);
    }

    @Test
    void aRecordForgetsTheOneBefore() {
        read("{'id':1,'vector':[1],'colour':'red','payload':1,'if':{'newer':4}}");
        Incoming next = new Incoming();
        next.kind = Incoming.Kind.VECTOR_LINE;
        next.line = "{\"id\":1,\"vector\":[1]}";
        assertThat(parser.parse(next)).isNull();
        assertThat(next.fields.isNone()).isTrue();
        assertThat(next.newer).isEqualTo(Incoming.ANY_ORDER);
    }

    @Test
    void anUpdateSaysWhatChangesAndWhatGoes() {
        Incoming update =
                read(
                        "{'id':1,'op':'update','price':7,'attributes':{'colour':null},'payload':null}");
        assertThat(update.kind).isEqualTo(Incoming.Kind.UPDATE);
        assertThat(values(update)).isEqualTo(Map.of("price", 7.0));
        assertThat(update.fields.unset()).containsExactly((short) 0);
        assertThat(update.fields.payloadRemoved()).isTrue();
        assertThat(update.fields.payload()).isNull();
        // In an upsert null is no value.
        Incoming upsert = read("{'id':1,'vector':[1],'price':null}");
        assertThat(upsert.fields.isNone()).isTrue();
    }

    @Test
    void groupsAreReadWhereRowsAreInThem() throws Exception {
        Schema grouped =
                Schema.fromJson(
                        new ObjectMapper()
                                .readTree("{\"seed\":7,\"groups\":{\"mode\":\"isolated\"}}"));
        LineParser groups = new LineParser(10, grouped);
        Incoming record = new Incoming();
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = "{\"group\":\"ann\",\"id\":1,\"vector\":[1]}";
        assertThat(groups.parse(record)).isNull();
        assertThat(record.group).isEqualTo("ann");
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = "{\"group\":\"bob\",\"op\":\"drop-group\"}";
        assertThat(groups.parse(record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.DROP_GROUP);
        record.kind = Incoming.Kind.QUERY_LINE;
        record.line = "{\"group\":\"eve\",\"query_id\":1,\"vector\":[1]}";
        assertThat(groups.parse(record)).isNull();
        assertThat(record.group).isEqualTo("eve");
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = "{\"group\":7,\"id\":1,\"vector\":[1]}";
        assertThat(groups.parse(record)).isEqualTo(Reason.BAD_GROUP);
        record.kind = Incoming.Kind.QUERY_LINE;
        record.line = "{\"group\":\"eve\",\"query_id\":1,\"vector\":[1],\"text\":\"bill\"}";
        assertThat(groups.parse(record)).isNull();
        assertThat(record.order).contains("\"text\":\"bill\"", "\"vector\":true");
        record.kind = Incoming.Kind.QUERY_LINE;
        record.line = "{\"group\":\"eve\",\"query_id\":1,\"rank\":\"$a\",\"parameters\":{\"a\":2}}";
        assertThat(groups.parse(record)).isNull();
        assertThat(record.order).contains("\"a\":2.0", "\"vector\":false");
        assertThat(record.vector).isEmpty();
        record.kind = Incoming.Kind.QUERY_LINE;
        record.line = "{\"group\":\"eve\",\"query_id\":1,\"vector\":[1],\"rank\":7}";
        assertThat(groups.parse(record)).isEqualTo(Reason.BAD_RANK);
        // Elsewhere the name means nothing, and a drop is no operation.
        assertThat(read("{'id':1,'vector':[1],'group':'ann'}").group).isEmpty();
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = "{\"group\":\"bob\",\"op\":\"drop-group\"}";
        assertThat(parser.parse(record)).isEqualTo(Reason.MALFORMED_LINE);
    }

    @Test
    void payloadsAreJsonOrBytes() {
        assertThat(payload("{'id':1,'vector':[1],'payload':{'a': [1, null]}}"))
                .isEqualTo("{\"a\":[1,null]}");
        assertThat(payload("{'id':1,'vector':[1],'payload':'text'}")).isEqualTo("\"text\"");
        assertThat(payload("{'id':1,'vector':[1],'payload_base64':'AGE='}")).isEqualTo("\0a");
    }

    @Test
    void idsMayBeTexts() {
        LineParser texts = new LineParser(10, Shop.TEXTS);
        Incoming upsert = new Incoming();
        upsert.kind = Incoming.Kind.VECTOR_LINE;
        upsert.line = "{\"id\":\"sku-17\",\"vector\":[1]}";
        assertThat(texts.parse(upsert)).isNull();
        assertThat(upsert.fields.name()).isEqualTo("sku-17");
        // The line of names.txt.
        assertThat(upsert.id).isEqualTo(0x40a03e647cd25c3cL);
        assertThat(upsert.fields.check()).isEqualTo(0xc29b6accde39c478L);
        Incoming delete = new Incoming();
        delete.kind = Incoming.Kind.VECTOR_LINE;
        delete.line = "{\"op\":\"delete\",\"id\":\"sku-17\",\"price\":3}";
        assertThat(texts.parse(delete)).isNull();
        assertThat(delete.id).isEqualTo(upsert.id);
        assertThat(delete.fields.attributes()).isEmpty();
        for (String id : List.of("17", "''", "null", "'" + "x".repeat(513) + "'")) {
            delete.kind = Incoming.Kind.VECTOR_LINE;
            delete.line = "{\"id\":" + id.replace('\'', '"') + ",\"vector\":[1]}";
            assertThat(texts.parse(delete)).as(id).isEqualTo(Reason.BAD_ID);
        }
    }

    @Test
    void queriesAskForMore() {
        Incoming query = new Incoming();
        query.kind = Incoming.Kind.QUERY_LINE;
        query.line =
                "{\"query_id\":1,\"vector\":[1],\"filter\":{\"must\": [ {\"key\":\"price\"}]},"
                        + "\"with\":[\"price\",\"payload\"],\"radius\":0.5,\"price\":3}";
        assertThat(parser.parse(query)).isNull();
        assertThat(query.filter).isEqualTo("{\"must\":[{\"key\":\"price\"}]}");
        assertThat(query.with).containsExactly("price", "payload");
        assertThat(query.radius).isEqualTo(0.5f);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{'id':1,'vector':[1],'price':'9'} | WRONG_TYPE | 'price' takes f64",
                "{'id':1,'vector':[1],'attributes':{'tags':[1]}} | WRONG_TYPE | 'tags'",
                "{'id':1,'vector':[1],'attributes':{'price':{'a':1}}} | WRONG_TYPE | 'price'",
                "{'id':1,'vector':[1],'attributes':[1]} | WRONG_TYPE | ``",
                "{'id':1,'vector':[1],'attributes':{'size':1}} | UNKNOWN_ATTRIBUTE | 'size'",
                "{'id':1,'vector':[1],'price':1,'attributes':{'price':1}} | MALFORMED_LINE | twice",
                "{'id':1,'vector':[1],'price':null,'attributes':{'price':1}} | MALFORMED_LINE |"
                        + " twice",
                "{'id':1,'vector':[1],'payload_base64':'?'} | WRONG_TYPE | base 64",
                "{'id':'a','vector':[1]} | BAD_ID | ``",
                "{'id':1,'op':'replace','vector':[1]} | MALFORMED_LINE | ``",
                "{'id':1,'vector':null} | MALFORMED_LINE | ``",
                "{'id':1,'vector':[1],'if':{'newer':1.5}} | MALFORMED_LINE | condition",
                "{'id':1,'vector':[1],'if':{'older':1}} | MALFORMED_LINE | condition",
                "{'id':1,'vector':[1],'if':{'newer':1,'x':1}} | MALFORMED_LINE | condition",
                "{'id':1,'vector':[1],'if':{'where':{'must':[]}}} | MALFORMED_LINE | condition",
                "{'op':'delete','where':{'must':[]}} | BAD_FILTER | deletes by id",
                "{'id':1,'where':'price < 3','op':'delete'} | BAD_FILTER | deletes by id",
            })
    void badRecordsAreRefusedForTheirReason(String line, Reason reason, String problem) {
        refuses(Incoming.Kind.VECTOR_LINE, line, reason, problem);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{'query_id':1,'vector':[1],'filter':'price < 3'} | BAD_FILTER | object",
                "{'query_id':1,'vector':[1],'with':'price'} | MALFORMED_LINE | list of names",
                "{'query_id':1,'vector':[1],'with':[1]} | MALFORMED_LINE | list of names",
                "{'query_id':1,'vector':[1],'radius':'far'} | BAD_RADIUS | ``",
                "{'query_id':1,'vector':[1],'radius':NaN} | BAD_RADIUS | ``",
            })
    void badQueriesAreRefusedForTheirReason(String line, Reason reason, String problem) {
        refuses(Incoming.Kind.QUERY_LINE, line, reason, problem);
    }

    @Test
    void aPayloadHasALimit() {
        LineParser small = new LineParser(10, new Schema(false, List.of(), 8, 0));
        Incoming record = new Incoming();
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = "{\"id\":1,\"vector\":[1],\"payload\":\"1234567\"}";
        assertThat(small.parse(record)).isEqualTo(Reason.TOO_LARGE);
        assertThat(record.problem).contains("9 bytes", "may have 8");
    }

    /** As before there were attributes. */
    @Test
    void aPlainCollectionSkipsWhatItDoesNotKnow() {
        LineParser plain = new LineParser(10);
        Incoming record = new Incoming();
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line =
                "{\"id\":1,\"vector\":[1],\"payload\":7,\"attributes\":{\"a\":1},\"price\":3}";
        assertThat(plain.parse(record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
        assertThat(record.fields.isNone()).isTrue();
    }

    private void refuses(Incoming.Kind kind, String line, Reason reason, String problem) {
        Incoming record = new Incoming();
        record.kind = kind;
        record.line = line.replace('\'', '"');
        assertThat(parser.parse(record)).isEqualTo(reason);
        assertThat(record.problem).contains(problem);
    }

    private Incoming read(String line) {
        Incoming record = new Incoming();
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = line.replace('\'', '"');
        assertThat(parser.parse(record)).as(record.problem).isNull();
        return record;
    }

    private String payload(String line) {
        return new String(read(line).fields.payload(), StandardCharsets.UTF_8);
    }

    private static Map<String, Object> values(Incoming record) {
        return AttributeValues.read(Shop.NUMBERS, record.fields.attributes());
    }
}
