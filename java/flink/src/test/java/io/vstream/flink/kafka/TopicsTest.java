package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.kafka.KafkaInput.Format;
import io.vstream.flink.kafka.KafkaInput.Start;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TopicsTest {

    /**
     * Offsets are committed with checkpoints. A job without any began with the oldest record at
     * each start, whatever it had read before.
     */
    @Test
    void theClientCommitsOffsetsWhereNoCheckpointDoesAndTheNextStartNeedsThem() {
        for (Start start : Start.values()) {
            for (boolean queries : new boolean[] {false, true}) {
                assertThat(commits(start, queries, true)).isNull();
                assertThat(commits(start, queries, false))
                        .isEqualTo(start == Start.COMMITTED ? "true" : null);
            }
        }
    }

    private static String commits(Start start, boolean queries, boolean checkpoints) {
        KafkaInput input =
                new KafkaInput("b:1", "t", "g", Format.JSON, null, null, start, 1, 1, Map.of());
        return Topics.properties(input, queries, checkpoints).getProperty("enable.auto.commit");
    }
}
