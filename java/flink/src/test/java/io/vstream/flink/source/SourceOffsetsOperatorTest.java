package io.vstream.flink.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.route.ShardKeys;
import java.util.List;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;

class SourceOffsetsOperatorTest {

    private static final ShardKeys KEYS = ShardKeys.of(ShardKeys.USUAL);

    private static final int PLACES = 3;

    @Test
    void oneMarkFollowsTheRecordsToEachPlaceTask() throws Exception {
        try (var harness = harness(null)) {
            record(harness, 0, 10);
            record(harness, 2, 20);
            record(harness, 0, 11);
            assertThat(harness.extractOutputValues()).hasSize(3);
            harness.setProcessingTime(Frontier.OFFSETS_EVERY_MILLIS);
            List<Incoming> sent = offsets(harness);
            assertThat(sent).hasSize(PLACES);
            for (int place = 0; place < PLACES; place++) {
                assertThat(sent.get(place).offsets).containsExactly(12, -1, 21);
                assertThat(
                                KeyGroupRangeAssignment.assignKeyToParallelOperator(
                                        sent.get(place).id, ShardKeys.USUAL, PLACES))
                        .isEqualTo(place);
            }
            // Nothing new, nothing said.
            harness.setProcessingTime(10 * Frontier.OFFSETS_EVERY_MILLIS);
            assertThat(offsets(harness)).hasSize(PLACES);
        }
    }

    @Test
    void afterARestoreItSpeaksForAllPartitions() throws Exception {
        OperatorSubtaskState one;
        OperatorSubtaskState two;
        try (var harness = harness(null)) {
            record(harness, 0, 10);
            one = harness.snapshot(1, 1);
        }
        try (var harness = harness(null)) {
            record(harness, 1, 30);
            two = harness.snapshot(1, 1);
        }
        OperatorSubtaskState both = AbstractStreamOperatorTestHarness.repackageState(one, two);
        try (var harness = harness(both)) {
            harness.setProcessingTime(Frontier.OFFSETS_EVERY_MILLIS);
            assertThat(offsets(harness)).hasSize(PLACES);
            assertThat(offsets(harness).get(0).offsets).containsExactly(11, 31);
        }
    }

    private static OneInputStreamOperatorTestHarness<Incoming, Incoming> harness(
            OperatorSubtaskState restored) throws Exception {
        var harness =
                new OneInputStreamOperatorTestHarness<>(
                        new SourceOffsetsOperator(KEYS, task -> PLACES), 1, 1, 0);
        harness.setup(Incoming.TYPE.createSerializer(null));
        if (restored != null) {
            harness.initializeState(restored);
        }
        harness.open();
        return harness;
    }

    private static void record(
            OneInputStreamOperatorTestHarness<Incoming, Incoming> harness,
            int partition,
            long offset)
            throws Exception {
        Incoming record = new Incoming();
        record.partition = partition;
        record.offset = offset;
        harness.processElement(new StreamRecord<>(record));
    }

    private static List<Incoming> offsets(
            OneInputStreamOperatorTestHarness<Incoming, Incoming> harness) {
        return harness.extractOutputValues().stream()
                .filter(record -> record.kind == Incoming.Kind.OFFSETS)
                .toList();
    }
}
