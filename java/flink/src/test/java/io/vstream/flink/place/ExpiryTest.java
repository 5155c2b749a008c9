package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeSet;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.junit.jupiter.api.Test;

/** Rows that live for a time, against a model of when each of them ends. */
class ExpiryTest {

    private static final long LIFE = 100;
    private static final int IDS = 50;
    private static final float[] VECTOR = {1, 2, 3, 4};

    /** End of each living row; what place has to agree with. */
    private final Map<Long, Long> ends = new HashMap<>();

    /** Rows after the writes so far, as the partitions hold them. */
    private final TreeSet<Long> rows = new TreeSet<>();

    @Test
    void rowsEndWithTheirWatermarkAcrossRestarts() throws Exception {
        long seed = 20_261;
        SplittableRandom random = new SplittableRandom(seed);
        List<OperatorSubtaskState> states = List.of();
        long watermark = 0;
        long known = Long.MIN_VALUE;
        for (int attempt = 0; attempt < 5; attempt++) {
            try (PlaceTask task = task(LIFE, states)) {
                int seen = 0;
                for (int step = 0; step < 400; step++) {
                    long id = random.nextInt(IDS);
                    int kind = random.nextInt(10);
                    if (kind < 6) {
                        // Some are so late that their time is over.
                        long time = watermark + 60 - random.nextInt(200);
                        task.upsert(id, VECTOR, time);
                        if (time + LIFE <= known) {
                            ends.remove(id);
                        } else {
                            ends.put(id, time + LIFE);
                        }
                    } else if (kind < 8) {
                        task.delete(id);
                        ends.remove(id);
                    } else {
                        watermark += random.nextInt(40);
                        known = watermark;
                        advance(task, watermark);
                    }
                    seen = apply(task, seen);
                    assertThat(rows).as("seed %d, step %d", seed, step).isEqualTo(living());
                }
                states = List.of(task.harness.snapshot(attempt, attempt));
            }
        }
        try (PlaceTask task = task(LIFE, states)) {
            advance(task, watermark + 1_000);
            apply(task, 0);
            assertThat(rows).isEmpty();
        }
    }

    /** The answers of the restored partitions say that watermark from the first one on. */
    @Test
    void whatWasTooLateBeforeARestoreIsTooLateAfterIt() throws Exception {
        List<OperatorSubtaskState> states = new ArrayList<>();
        for (int subtask = 0; subtask < 2; subtask++) {
            try (PlaceTask task =
                    new PlaceTask(PlaceTask.COLLECTION, LIFE, 2, subtask, List.of())) {
                advance(task, 1_000 + subtask);
                states.add(task.harness.snapshot(1, 1));
            }
        }
        try (PlaceTask task = new PlaceTask(PlaceTask.COLLECTION, LIFE, 1, 0, states)) {
            task.upsert(1, VECTOR, 1_000 - LIFE);
            assertThat(task.writes()).isEmpty();
            task.upsert(1, VECTOR, 1_001 - LIFE);
            assertThat(task.writes()).hasSize(1);
        }
    }

    @Test
    void whatComesAfterTheEndOfAStreamIsNotTooLate() throws Exception {
        List<OperatorSubtaskState> states;
        try (PlaceTask task = task(LIFE, List.of())) {
            advance(task, Long.MAX_VALUE);
            states = List.of(task.harness.snapshot(1, 1));
        }
        try (PlaceTask task = task(LIFE, states)) {
            task.upsert(1, VECTOR, 7);
            assertThat(task.writes()).hasSize(1);
        }
    }

    @Test
    void theWritesOfAnEndComeBeforeItsWatermark() throws Exception {
        try (PlaceTask task = task(LIFE, List.of())) {
            task.upsert(1, VECTOR, 7);
            advance(task, 7 + LIFE);
            List<Object> out = new ArrayList<>(task.harness.getOutput());
            assertThat(out).hasSize(3);
            assertThat(out.get(2)).isEqualTo(new Watermark(7 + LIFE));
            assertThat(task.writes()).hasSize(2);
            assertThat(task.writes().get(1).delete).isTrue();
        }
    }

    @Test
    void withoutATimeToLiveRestoredRowsStay() throws Exception {
        List<OperatorSubtaskState> states;
        try (PlaceTask task = task(LIFE, List.of())) {
            task.upsert(1, VECTOR, 7);
            states = List.of(task.harness.snapshot(1, 1));
        }
        try (PlaceTask task = task(0, states)) {
            advance(task, 10_000);
            assertThat(task.writes()).isEmpty();
            states = List.of(task.harness.snapshot(2, 2));
        }
        // The old end is forgotten, not only unheeded.
        try (PlaceTask task = task(LIFE, states)) {
            advance(task, 10_000);
            assertThat(task.writes()).isEmpty();
            task.delete(1);
            assertThat(task.writes()).hasSize(1);
        }
    }

    @Test
    void aRowWithoutAnEventTimeIsRefused() throws Exception {
        try (PlaceTask task = task(LIFE, List.of())) {
            task.upsert(1, VECTOR);
            assertThat(task.writes()).isEmpty();
            assertThat(task.harness.getSideOutput(BadRecord.TAG)).hasSize(1);
        }
    }

    private static PlaceTask task(long life, List<OperatorSubtaskState> states) throws Exception {
        return new PlaceTask(PlaceTask.COLLECTION, life, 1, 0, states);
    }

    private void advance(PlaceTask task, long watermark) throws Exception {
        task.harness.processWatermark1(new Watermark(watermark));
        task.harness.processWatermark2(new Watermark(watermark));
        ends.values().removeIf(end -> end <= watermark);
    }

    private int apply(PlaceTask task, int seen) {
        List<Write> writes = task.writes();
        for (Write write : writes.subList(seen, writes.size())) {
            if (write.delete) {
                rows.remove(write.id);
            } else {
                rows.add(write.id);
            }
        }
        return writes.size();
    }

    private TreeSet<Long> living() {
        return new TreeSet<>(ends.keySet());
    }
}
