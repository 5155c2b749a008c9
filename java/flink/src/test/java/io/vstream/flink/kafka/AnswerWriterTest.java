package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerJson;
import io.vstream.flink.merge.AnswerRow;
import io.vstream.flink.row.AttributeKind;
import io.vstream.flink.row.Shop;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.util.Utf8;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AnswerWriterTest {

    private static final Ticket TICKET = new Ticket(1, -1, 2, 0, 0, true);

    @Test
    void anAnswerIsOneRecordUnderItsQuery() {
        Answer answer =
                new Answer(
                        TICKET,
                        new long[] {-2, 5},
                        new float[] {0.5f, 2},
                        1,
                        false,
                        new Frontier(1_700_000_000_000L, new long[] {12, -1, 15}));
        var record =
                new AnswerWriter(
                                new KafkaOutput(
                                        "", "answers", false, null, false, null, 0, Map.of()),
                                io.vstream.flink.row.Schema.PLAIN)
                        .serialize(answer, null, null);
        assertThat(record.topic()).isEqualTo("answers");
        assertThat(new String(record.key(), StandardCharsets.UTF_8))
                .isEqualTo("18446744073709551615");
        assertThat(new String(record.value(), StandardCharsets.UTF_8))
                .isEqualTo(
                        "{\"query_id\":18446744073709551615,\"results\":["
                                + "{\"rank\":1,\"id\":18446744073709551614,\"distance\":0.5},"
                                + "{\"rank\":2,\"id\":5,\"distance\":2.0}],"
                                + "\"partial\":false,\"watermark\":1700000000000,"
                                + "\"offsets\":{\"0\":12,\"2\":15}}");
    }

    @Test
    void rowsSayWhatTheyCarry() {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("colour", "\"red\"");
        values.put("tags", List.of("a", "b"));
        values.put("price", 9.5);
        values.put("stock", 3L);
        values.put("since", Instant.parse("2024-01-02T03:04:05Z"));
        byte[] json = "{\"a\" : [1,\n 2]}".getBytes(StandardCharsets.UTF_8);
        Answer answer =
                new Answer(
                        TICKET,
                        new long[] {-2, 5, 6},
                        new float[] {0.5f, 2, 3},
                        new AnswerRow[] {
                            new AnswerRow("sku-1", values, json, false),
                            new AnswerRow("sku\n2", Map.of(), new byte[] {0, 1}, false),
                            new AnswerRow("c", Map.of(), null, true)
                        },
                        1,
                        false,
                        Frontier.NONE);
        assertThat(AnswerWriter.json(answer))
                .contains(
                        "\"results\":[{\"rank\":1,\"id\":\"sku-1\",\"distance\":0.5,"
                                + "\"attributes\":{\"colour\":\"\\\"red\\\"\","
                                + "\"tags\":[\"a\",\"b\"],\"price\":9.5,\"stock\":3,"
                                + "\"since\":\"2024-01-02T03:04:05Z\"},\"payload\":{\"a\":[1,2]}},"
                                + "{\"rank\":2,\"id\":\"sku\\n2\",\"distance\":2.0,"
                                + "\"payload_base64\":\"AAE=\"},"
                                + "{\"rank\":3,\"id\":\"c\",\"distance\":3.0,"
                                + "\"left_out\":true}]");
        assertThat(AnswerJson.line(answer, null))
                .startsWith("{\"query_id\":18446744073709551615,\"ids\":[\"sku-1\",\"sku\\n2\",")
                .contains("\"rows\":[{\"attributes\":{\"colour\"")
                .doesNotContain("\n");
    }

    @Test
    void whatIsNotKnownIsNotSaid() {
        Answer answer = new Answer(TICKET, new long[0], new float[0], 1, true, Frontier.NONE);
        assertThat(AnswerWriter.json(answer))
                .endsWith("\"results\":[],\"partial\":true,\"watermark\":null,\"offsets\":{}}");
    }

    @Test
    void avroSaysTheSame() throws Exception {
        Answer answer =
                new Answer(
                        TICKET,
                        new long[] {-2, 5},
                        new float[] {0.5f, 2},
                        1,
                        true,
                        new Frontier(1_700_000_000_000L, new long[] {12, -1, 15}));
        try (RegistryStub registry = new RegistryStub()) {
            registry.add("\"int\"");
            AnswerAvro avro =
                    new AnswerAvro(
                            registry.address(), "answers", io.vstream.flink.row.Schema.PLAIN);
            byte[] value = avro.value(answer);
            assertThat(registry.requests()).containsExactly("/subjects/answers-value/versions");
            assertThat(SchemaRegistry.number(value)).isEqualTo(1);
            Schema schema = new Schema.Parser().parse(registry.schema(1));
            GenericRecord read = AvroRecords.read(schema, value, SchemaRegistry.HEADER_BYTES);
            assertThat(read.get("query_id")).isEqualTo(-1L);
            assertThat(read.get("results").toString())
                    .isEqualTo(
                            "[{\"rank\": 1, \"id\": -2, \"distance\": 0.5}, "
                                    + "{\"rank\": 2, \"id\": 5, \"distance\": 2.0}]");
            assertThat(read.get("partial")).isEqualTo(true);
            assertThat(read.get("watermark")).isEqualTo(1_700_000_000_000L);
            assertThat(read.get("offsets"))
                    .isEqualTo(Map.of(new Utf8("0"), 12L, new Utf8("2"), 15L));
        }
        Answer none = new Answer(TICKET, new long[0], new float[0], 1, false, Frontier.NONE);
        GenericRecord read =
                AvroRecords.read(
                        AnswerAvro.schema(io.vstream.flink.row.Schema.PLAIN),
                        new AnswerAvro(null, "answers", io.vstream.flink.row.Schema.PLAIN)
                                .value(none),
                        0);
        assertThat(read.get("watermark")).isNull();
        assertThat(read.get("offsets").toString()).isEqualTo("{}");
    }

    @Test
    void avroHasWhatRowsCarryByTheSchema() throws Exception {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("colour", "red");
        values.put("tags", List.of("a", "b"));
        values.put("price", 9.5);
        values.put("stock", 3L);
        values.put("new", true);
        values.put("since", Instant.parse("2024-01-02T03:04:05Z"));
        Answer answer =
                new Answer(
                        TICKET,
                        new long[] {-2, 5, 6},
                        new float[] {0.5f, 2, 3},
                        new AnswerRow[] {
                            new AnswerRow("sku-1", values, new byte[] {1, 2}, false),
                            new AnswerRow("sku\n2", Map.of("price", 2.0), null, false),
                            new AnswerRow("c", Map.of(), null, true)
                        },
                        1,
                        false,
                        Frontier.NONE);
        assertThat(results(answer, Shop.TEXTS))
                .isEqualTo(
                        "[{\"rank\": 1, \"id\": \"sku-1\", \"distance\": 0.5, \"attributes\": "
                                + "{\"colour\": \"red\", \"tags\": [\"a\", \"b\"], \"price\": 9.5, "
                                + "\"stock\": 3, \"new\": true, \"since\": 1704164645000}, "
                                + "\"payload\": \"\\u0001\\u0002\", \"left_out\": false}, "
                                + "{\"rank\": 2, \"id\": \"sku\\n2\", \"distance\": 2.0, "
                                + "\"attributes\": {\"colour\": null, \"tags\": null, "
                                + "\"price\": 2.0, \"stock\": null, \"new\": null, "
                                + "\"since\": null}, \"payload\": null, \"left_out\": false}, "
                                + "{\"rank\": 3, \"id\": \"c\", \"distance\": 3.0, "
                                + "\"attributes\": null, \"payload\": null, \"left_out\": true}]");
        // Number ids, and nothing was asked.
        Answer plain = new Answer(TICKET, new long[] {-2}, new float[] {1}, 1, true, Frontier.NONE);
        assertThat(results(plain, Shop.NUMBERS))
                .isEqualTo(
                        "[{\"rank\": 1, \"id\": -2, \"distance\": 1.0, "
                                + "\"attributes\": null, \"payload\": null, \"left_out\": false}]");
    }

    @Test
    void anAttributeThatAvroCannotNameIsRefused() {
        var attribute = new io.vstream.flink.row.Schema.Attribute("a b", AttributeKind.I64);
        var rows = new io.vstream.flink.row.Schema(false, List.of(attribute), 0, 42);
        KafkaOutput output = new KafkaOutput("", "answers", true, null, false, null, 0, Map.of());
        assertThatThrownBy(() -> new AnswerWriter(output, rows))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("'a b' is no name of a field in Avro");
    }

    @Test
    void aDistanceThatIsNotFiniteIsNull() {
        Answer answer =
                new Answer(
                        TICKET,
                        new long[] {1, 2, 3},
                        new float[] {Float.NEGATIVE_INFINITY, Float.POSITIVE_INFINITY, Float.NaN},
                        1,
                        false,
                        Frontier.NONE);
        assertThat(AnswerWriter.json(answer))
                .contains(
                        "[{\"rank\":1,\"id\":1,\"distance\":null},"
                                + "{\"rank\":2,\"id\":2,\"distance\":null},"
                                + "{\"rank\":3,\"id\":3,\"distance\":null}]");
        assertThat(AnswerJson.line(answer, null)).contains("\"distances\":[null,null,null]");
    }

    /**
     * An answer with payloads of a few MiB failed the job, which answered the same query after its
     * restart and failed again.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anAnswerThatIsTooLongLeavesOutWhatRowsCarry(boolean isAvro) throws Exception {
        AnswerRow[] rows = new AnswerRow[10];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new AnswerRow("sku-" + i, Map.of("price", 9.5), new byte[300_000], false);
        }
        Answer answer = answer(rows, new long[] {12});
        byte[] value = written(answer, isAvro, Map.of("max.request.size", "1500000"), Shop.TEXTS);
        assertThat(value).hasSizeBetween(500_000, 1_500_000);
        // In base 64 a payload takes 400,000 bytes.
        int whole = 2;
        String said = said(value, isAvro);
        assertThat(said.split("\"left_out\": ?true", -1)).hasSize(1 + rows.length - whole);
        assertThat(said).contains("sku-9").contains("partial\":false").contains("12");
        assertThat(said.split("price", -1)).hasSize(1 + whole);

        byte[] usual = written(answer, isAvro, Map.of(), Shop.TEXTS);
        assertThat(usual).hasSizeLessThan((1 << 20) - 100);
        byte[] large = written(answer, isAvro, Map.of("max.request.size", "10000000"), Shop.TEXTS);
        assertThat(said(large, isAvro)).doesNotContainPattern("left_out\": ?true");
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anAnswerOfTooManyRowsHasTheFirstOfThemAndIsPartial(boolean isAvro) throws Exception {
        AnswerRow[] rows = new AnswerRow[16];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new AnswerRow(i + "-" + "x".repeat(480), Map.of(), null, false);
        }
        Map<String, String> small = Map.of("max.request.size", "4096");
        Answer answer = answer(rows, new long[] {12});
        String said = said(written(answer, isAvro, small, Shop.TEXTS), isAvro);
        assertThat(said).contains("3-xx").doesNotContain("4-xx").contains("partial\":true");
        assertThat(said).contains("12").doesNotContainPattern("left_out\": ?true");
        // Offsets of many partitions take all of the room.
        Answer offsets = answer(rows, new long[2_000]);
        assertThat(written(offsets, isAvro, small, Shop.TEXTS)).hasSizeLessThan(200);
    }

    @Test
    void aProducerWithoutRoomForAnyAnswerIsRefused() {
        for (Map<String, String> properties :
                List.of(
                        Map.of("max.request.size", "1000"),
                        Map.of("buffer.memory", "1000"),
                        Map.of("max.request.size", "much"))) {
            assertThatThrownBy(() -> new AnswerWriter(output(false, properties), Shop.TEXTS))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageStartingWith("results.properties: ");
        }
    }

    private static Answer answer(AnswerRow[] rows, long[] offsets) {
        return new Answer(
                TICKET,
                new long[rows.length],
                new float[rows.length],
                rows,
                1,
                false,
                new Frontier(1_700_000_000_000L, offsets));
    }

    private static KafkaOutput output(boolean isAvro, Map<String, String> properties) {
        return new KafkaOutput("", "answers", isAvro, null, false, null, 0, properties);
    }

    private static byte[] written(
            Answer answer,
            boolean isAvro,
            Map<String, String> properties,
            io.vstream.flink.row.Schema rows) {
        AnswerWriter writer = new AnswerWriter(output(isAvro, properties), rows);
        writer.open(null, null);
        return writer.serialize(answer, null, null).value();
    }

    private static String said(byte[] value, boolean isAvro) throws Exception {
        if (!isAvro) {
            return new String(value, StandardCharsets.UTF_8);
        }
        Schema schema = AnswerAvro.schema(Shop.TEXTS);
        GenericRecord read = AvroRecords.read(schema, value, 0);
        return read.get("results") + " partial\":" + read.get("partial") + read.get("offsets");
    }

    private static String results(Answer answer, io.vstream.flink.row.Schema rows)
            throws Exception {
        // As whoever has the schema from a registry reads it.
        Schema schema = new Schema.Parser().parse(AnswerAvro.schema(rows).toString());
        byte[] value = new AnswerAvro(null, "answers", rows).value(answer);
        return AvroRecords.read(schema, value, 0).get("results").toString();
    }
}
