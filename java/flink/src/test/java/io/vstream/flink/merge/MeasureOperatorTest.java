package io.vstream.flink.merge;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import java.util.Map;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;

class MeasureOperatorTest {

    /** The gauge held whole answers with their payloads, which reports of metrics took along. */
    @Test
    void aShownAnswerHasItsFirstRowsAndNothingThatTheyCarry() throws Exception {
        AnswerRow[] rows = new AnswerRow[20];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new AnswerRow("sku-" + i, Map.of("price", 9.5), new byte[1_000], false);
        }
        Ticket ticket = new Ticket(1, 3, 20, 0, 0, false);
        Answer answer =
                new Answer(ticket, new long[20], new float[20], rows, 1, false, Frontier.NONE);
        MeasureOperator operator = new MeasureOperator();
        try (var harness = new OneInputStreamOperatorTestHarness<Answer, Answer>(operator)) {
            harness.setup(Answer.TYPE.createSerializer(null));
            harness.open();
            harness.processElement(new StreamRecord<>(answer));
            String[] lines = operator.sample().split("\n");
            // The latest answer to the third query, and the latest one.
            assertThat(lines).hasSize(2);
            for (String line : lines) {
                assertThat(line)
                        .startsWith("{\"type\":\"sample\",\"query_id\":3,\"ids\":[\"sku-0\",")
                        .contains("\"sku-15\"],\"distances\":[0.0,")
                        .endsWith("],\"partial\":false}")
                        .doesNotContain("sku-16")
                        .doesNotContain("rows");
            }
            assertThat(harness.extractOutputValues()).containsExactly(answer);
            // Not again within two seconds.
            Ticket other = new Ticket(2, 4, 20, 0, 0, false);
            harness.processElement(
                    new StreamRecord<>(
                            new Answer(other, new long[0], new float[0], 1, true, Frontier.NONE)));
            assertThat(operator.sample().split("\n")).isEqualTo(lines);
        }
    }
}
