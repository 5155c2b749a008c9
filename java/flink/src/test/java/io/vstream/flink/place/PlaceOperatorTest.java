package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.Step;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.route.ShardKeys;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Place against a model: what each partition holds after its writes. */
class PlaceOperatorTest {

    private static final ShardKeys KEYS = ShardKeys.of(ShardKeys.USUAL);

    private static final int DIMENSION = PlaceTask.DIMENSION;
    private static final String COLLECTION = PlaceTask.COLLECTION;
    private static final String HASHED =
            """
            {"dimension": 4, "metric": "l2", "element": "f32", "index": "cluster", "seed": 3,
             "encoder": {"kind": "lsh", "families": 1, "hashes": 4}}
            """;

    private final SplittableRandom random = new SplittableRandom(17);

    /** The writes of the job so far, applied as search would. */
    private final Map<Integer, Map<Long, Write>> partitions = new TreeMap<>();

    private final Map<Long, Long> lastVersion = new HashMap<>();
    private final Map<Long, float[]> live = new HashMap<>();

    @Test
    void versionsNeverRestart() throws Exception {
        List<OperatorSubtaskState> states = new ArrayList<>();
        // Up and down in parallelism, with deletes of everything in between.
        for (int parallelism : new int[] {1, 3, 2, 1}) {
            states = run(parallelism, states, tasks -> mix(tasks, 300));
            checkPartitions(parallelism);
            states = run(parallelism, states, this::deleteEverything);
            assertThat(partitions.values()).allMatch(Map::isEmpty);
        }
    }

    @Test
    void aTemplateMovesEveryRowThatCameBeforeIt() throws Exception {
        int parallelism = 2;
        byte[] template = template();
        List<OperatorSubtaskState> states = run(parallelism, List.of(), tasks -> mix(tasks, 400));
        checkPartitions(parallelism);
        for (Step step : List.of(Step.ANNOUNCE, Step.SWITCH)) {
            states = run(parallelism, states, tasks -> command(tasks, 1, step, template));
        }
        // Until the end of the hand-over a row is in both places; writes go on meanwhile.
        states = run(parallelism, states, tasks -> mix(tasks, 40));
        states = run(parallelism, states, tasks -> command(tasks, 1, Step.DONE, template));
        checkPartitions(parallelism);
        checkPlaced(template);
        states = run(parallelism, states, tasks -> mix(tasks, 400));
        checkPartitions(parallelism);
        checkPlaced(template);
        // And at another parallelism, where a move between shards becomes one between partitions.
        run(3, states, tasks -> {});
    }

    @Test
    void aRowIsInItsNewPlaceBeforeItLeavesTheOldOne() throws Exception {
        byte[] template = template();
        try (PlaceTask task = new PlaceTask(2, 0, List.of())) {
            for (int i = 0; i < 40; i++) {
                long id = ownId(i, 2, 0);
                task.upsert(id, vector());
            }
            int before = task.writes().size();
            command(List.of(task), 1, Step.ANNOUNCE, template);
            command(List.of(task), 1, Step.SWITCH, template);
            List<Write> moved = task.writes().subList(before, task.writes().size());
            assertThat(moved).noneMatch(write -> write.delete);
            assertThat(moved.stream().filter(write -> write.ack == null)).hasSize(40);
            int switched = task.writes().size();
            command(List.of(task), 1, Step.DONE, template);
            List<Write> left = task.writes().subList(switched, task.writes().size());
            assertThat(left.stream().filter(write -> write.delete)).isNotEmpty();
            // Acknowledgements come last, behind the writes that they cover.
            assertThat(left.subList(left.size() - 2, left.size()))
                    .allMatch(write -> write.ack != null && write.ack.step() == Step.DONE);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1_024, 4_096})
    void writesReachPartitionsBeyond128(int shards) throws Exception {
        String collection =
                """
                {"dimension": %d, "metric": "l2", "shards": %d, "encoder": {"kind": "id"}}
                """
                        .formatted(PlaceTask.DIMENSION, shards);
        ShardKeys keys = ShardKeys.ofCollection(collection);
        int partitions = 300;
        int subtask = 217;
        Set<Integer> reached = new HashSet<>();
        OperatorSubtaskState state;
        List<Long> ids = new ArrayList<>();
        for (long id = 0; ids.size() < 100; id++) {
            if (KeyGroupRangeAssignment.assignKeyToParallelOperator(id, keys.shards(), partitions)
                    == subtask) {
                ids.add(id);
            }
        }
        List<Write> before;
        try (PlaceTask task = new PlaceTask(collection, 0, partitions, subtask, List.of())) {
            for (long id : ids) {
                task.upsert(id, vector());
            }
            before = task.writes();
            before.forEach(write -> reached.add(keys.partition(write.shard, partitions)));
            assertThat(before).hasSize(100).allMatch(write -> write.shard < keys.shards());
            assertThat(reached).anyMatch(partition -> partition > 255).hasSizeGreaterThan(60);
            task.harness.processElement1(
                    new StreamRecord<>(offsets(keys.idIn(subtask, partitions))));
            task.harness.setProcessingTime(Frontier.OFFSETS_EVERY_MILLIS);
            List<Write> marks = task.writes().subList(100, task.writes().size());
            assertThat(marks.stream().map(mark -> keys.partition(mark.shard, partitions)))
                    .containsExactlyElementsOf(IntStream.range(0, partitions).boxed().toList());
            state = task.harness.snapshot(1, 1);
        }
        try (PlaceTask task = new PlaceTask(collection, 0, partitions, subtask, List.of(state))) {
            for (int i = 0; i < ids.size(); i++) {
                task.delete(ids.get(i));
                Write delete = last(task);
                assertThat(delete.delete).isTrue();
                assertThat(delete.shard).isEqualTo(before.get(i).shard);
            }
        }
    }

    private static VectorRecord offsets(long leadingId) {
        VectorRecord record = new VectorRecord();
        record.offsets(leadingId, new long[] {7});
        return record;
    }

    @ParameterizedTest
    @ValueSource(strings = {COLLECTION, HASHED})
    void aRangeInTwoHandsGetsItsDeletesInBoth(String collection) throws Exception {
        byte[] first = trained(collection);
        byte[] second = skewed(first);
        try (PlaceTask task = new PlaceTask(2, 0, List.of());
                NativeRouter old = NativeRouter.fromBytes(first);
                NativeRouter next = NativeRouter.fromBytes(second)) {
            MovedRanges moves = next.movesSince(old);
            assertThat(moves.count()).isPositive();
            for (Step step : Step.values()) {
                command(List.of(task), 1, step, first);
            }
            float[] vector = vector();
            long id = ownId(0, 2, 0);
            Write upsert;
            do {
                vector = vector();
                task.upsert(id, vector);
                upsert = last(task);
            } while (moves.rangeOf(upsert.code) < 0);
            int from = KEYS.partition(upsert.shard, 2);
            for (Step step : List.of(Step.ANNOUNCE, Step.SWITCH)) {
                task.harness.processElement2(
                        new StreamRecord<>(
                                new Command(
                                        1,
                                        2,
                                        step,
                                        step == Step.ANNOUNCE ? second : new byte[0],
                                        moves.bytes())));
            }
            task.upsert(id, vector);
            List<Write> all = task.writes();
            Write update = all.get(all.size() - 2);
            Write erase = all.get(all.size() - 1);
            assertThat(KEYS.partition(update.shard, 2)).isNotEqualTo(from);
            assertThat(update.delete).isFalse();
            assertThat(erase.delete).isTrue();
            assertThat(KEYS.partition(erase.shard, 2)).isEqualTo(from);
            assertThat(erase.version).isEqualTo(update.version);
            int before = all.size();
            task.delete(id);
            List<Write> deletes = task.writes().subList(before, task.writes().size());
            assertThat(deletes.stream().map(write -> KEYS.partition(write.shard, 2)))
                    .containsExactlyInAnyOrder(0, 1);
            task.upsert(id, vector);
            command(List.of(task), 2, Step.DONE, second);
            int done = task.writes().size();
            task.delete(id);
            assertThat(task.writes().size()).isEqualTo(done + 1);
            assertThat(KEYS.partition(last(task).shard, 2)).isNotEqualTo(from);
        }
    }

    /** A template that gives the ranges of the fuller partition away. */
    private byte[] skewed(byte[] template) {
        try (NativeRouter router = NativeRouter.fromBytes(template)) {
            ByteBuffer loads = BufferLayout.allocate(MovedRanges.BUCKETS * 2 * Double.BYTES);
            for (int bucket = 0; bucket < MovedRanges.BUCKETS / 2; bucket++) {
                loads.putDouble(bucket * 2 * Double.BYTES, 1);
            }
            return router.rebalance(loads, 2, new NativeRouter.Limits(false, 1.1, 1.05, 1));
        }
    }

    private static Write last(PlaceTask task) {
        return task.writes().get(task.writes().size() - 1);
    }

    static long ownId(int number, int parallelism, int subtask) {
        long id = 0;
        for (int left = number; ; id++) {
            int owner =
                    KeyGroupRangeAssignment.assignKeyToParallelOperator(
                            id, ShardKeys.USUAL, parallelism);
            if (owner == subtask && left-- == 0) {
                return id;
            }
        }
    }

    private static void command(List<PlaceTask> tasks, long epoch, Step step, byte[] template)
            throws Exception {
        byte[] bytes = step == Step.ANNOUNCE ? template : new byte[0];
        for (PlaceTask task : tasks) {
            // Said twice, as after a restore: the second time changes nothing.
            for (int i = 0; i < 2; i++) {
                task.harness.processElement2(
                        new StreamRecord<>(new Command(1, epoch, step, bytes, new byte[0])));
            }
        }
    }

    @Test
    void aMarkGoesToEveryPartitionBehindTheWritesBeforeIt() throws Exception {
        try (PlaceTask task = new PlaceTask(2, 1, List.of())) {
            task.offsets(7, -1);
            task.offsets(5, 3);
            assertThat(task.writes()).isEmpty();
            task.harness.setProcessingTime(Frontier.OFFSETS_EVERY_MILLIS);
            assertThat(task.writes()).hasSize(2);
            for (int partition = 0; partition < 2; partition++) {
                Write write = task.writes().get(partition);
                assertThat(write.id).isEqualTo(1);
                assertThat(write.offsets).containsExactly(7, 3);
                assertThat(KEYS.partition(write.shard, 2)).isEqualTo(partition);
            }
        }
    }

    @Test
    void anUnknownDeleteHasNoEffect() throws Exception {
        try (PlaceTask task = new PlaceTask(1, 0, List.of())) {
            VectorRecord delete = new VectorRecord();
            delete.delete(5);
            task.harness.processElement1(new StreamRecord<>(delete));
            assertThat(task.harness.getOutput()).isEmpty();
        }
    }

    @Test
    void aVectorThatTheEngineRefusesIsABadRecord() throws Exception {
        String cosine = COLLECTION.replace("l2", "cosine");
        try (PlaceTask task = new PlaceTask(cosine, 0, 1, 0, List.of())) {
            byte[] template = trained(cosine);
            for (Step step : Step.values()) {
                command(List.of(task), 1, step, template);
            }
            task.upsert(1, new float[DIMENSION]);
            assertThat(task.harness.getSideOutput(BadRecord.TAG)).hasSize(1);
        }
    }

    private interface Stage {
        void on(List<PlaceTask> tasks) throws Exception;
    }

    /** Runs a step on all subtasks and returns their state at its end. */
    private List<OperatorSubtaskState> run(
            int parallelism, List<OperatorSubtaskState> restored, Stage step) throws Exception {
        List<PlaceTask> tasks = new ArrayList<>();
        List<OperatorSubtaskState> states = new ArrayList<>();
        try {
            for (int subtask = 0; subtask < parallelism; subtask++) {
                tasks.add(new PlaceTask(parallelism, subtask, restored));
            }
            step.on(tasks);
            for (PlaceTask task : tasks) {
                states.add(task.harness.snapshot(1, 1));
            }
            applyWrites(tasks, parallelism);
        } finally {
            for (PlaceTask task : tasks) {
                task.close();
            }
        }
        return states;
    }

    private void mix(List<PlaceTask> tasks, int records) throws Exception {
        for (int i = 0; i < records; i++) {
            long id = random.nextInt(60) - 30;
            PlaceTask task = owner(tasks, id);
            if (random.nextInt(4) == 0) {
                task.delete(id);
                live.remove(id);
            } else {
                float[] vector = vector();
                task.upsert(id, vector);
                live.put(id, vector);
            }
        }
    }

    private void deleteEverything(List<PlaceTask> tasks) throws Exception {
        for (long id : new HashSet<>(live.keySet())) {
            owner(tasks, id).delete(id);
            live.remove(id);
        }
    }

    private void applyWrites(List<PlaceTask> tasks, int parallelism) {
        // A rescaled index deals the rows anew by their shard.
        List<Write> rows = partitions.values().stream().flatMap(p -> p.values().stream()).toList();
        partitions.clear();
        for (int partition = 0; partition < parallelism; partition++) {
            partitions.put(partition, new HashMap<>());
        }
        rows.forEach(
                row -> partitions.get(KEYS.partition(row.shard, parallelism)).put(row.id, row));
        for (PlaceTask task : tasks) {
            for (Write write : task.writes()) {
                if (write.ack == null) {
                    apply(write, parallelism);
                }
            }
        }
    }

    private void apply(Write write, int parallelism) {
        long last = lastVersion.getOrDefault(write.id, 0L);
        // A move is one upsert and then deletes of the same version.
        assertThat(write.version)
                .as("version of %d", write.id)
                .isGreaterThanOrEqualTo(write.delete ? last : last + 1);
        lastVersion.put(write.id, write.version);
        Map<Long, Write> partition = partitions.get(KEYS.partition(write.shard, parallelism));
        Write old = partition.get(write.id);
        assertThat(old == null || old.version < write.version).isTrue();
        if (write.delete) {
            assertThat(partition.remove(write.id)).as("deleted row").isNotNull();
        } else {
            partition.put(write.id, write);
        }
    }

    /**
     * Every live id is in exactly one partition, with its last vector; nothing else is anywhere.
     */
    private void checkPartitions(int parallelism) {
        Set<Long> seen = new HashSet<>();
        partitions.forEach(
                (partition, rows) ->
                        rows.forEach(
                                (id, row) -> {
                                    assertThat(seen.add(id)).as("id %d twice", id).isTrue();
                                    assertThat(row.vector).isEqualTo(live.get(id));
                                    assertThat(KEYS.partition(row.shard, parallelism))
                                            .isEqualTo(partition);
                                }));
        assertThat(seen).isEqualTo(live.keySet());
    }

    /** Every row stands where the template says. */
    private void checkPlaced(byte[] template) {
        try (Placements placements = new Placements(DIMENSION, NativeRouter.fromBytes(template))) {
            for (Map<Long, Write> rows : partitions.values()) {
                for (Write row : rows.values()) {
                    placements.place(row.id, row.vector);
                    assertThat(row.shard).isEqualTo(placements.shard(0));
                    assertThat(row.code).isEqualTo(placements.code(0));
                }
            }
        }
    }

    private byte[] template() {
        return trained(COLLECTION);
    }

    private byte[] trained(String collection) {
        int rows = 200;
        ByteBuffer sample = BufferLayout.allocate(rows * DIMENSION * Float.BYTES);
        for (int i = 0; i < rows; i++) {
            sample.asFloatBuffer().put(i * DIMENSION, vector());
        }
        try (NativeRouter router = NativeRouter.train(collection, sample, rows, 1)) {
            return router.toBytes();
        }
    }

    private float[] vector() {
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) random.nextDouble() + 0.1f;
        }
        return vector;
    }

    private static PlaceTask owner(List<PlaceTask> tasks, long id) {
        return tasks.get(
                KeyGroupRangeAssignment.assignKeyToParallelOperator(
                        id, ShardKeys.USUAL, tasks.size()));
    }
}
