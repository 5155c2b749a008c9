package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.merge.Answer;
import java.nio.charset.StandardCharsets;
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
        var record = new AnswerWriter("answers").serialize(answer, null, null);
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
}
