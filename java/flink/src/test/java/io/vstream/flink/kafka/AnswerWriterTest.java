package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.merge.Answer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.util.Utf8;
import org.junit.jupiter.api.Test;

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
                                        "", "answers", false, null, false, null, 0, Map.of()))
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
            AnswerAvro avro = new AnswerAvro(registry.address(), "answers");
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
                AvroRecords.read(AnswerAvro.SCHEMA, new AnswerAvro(null, "answers").value(none), 0);
        assertThat(read.get("watermark")).isNull();
        assertThat(read.get("offsets").toString()).isEqualTo("{}");
    }
}
