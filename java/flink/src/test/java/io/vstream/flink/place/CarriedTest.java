package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.Step;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.row.AttributeValues;
import io.vstream.flink.row.FieldsBuilder;
import io.vstream.flink.row.Schema;
import io.vstream.flink.row.Shop;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import io.vstream.nativecore.RowFields;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.junit.jupiter.api.Test;

/** What place does with attributes, payloads, texts as ids and the order of records. */
class CarriedTest {

    private static final String NUMBERS =
            PlaceTask.COLLECTION.replaceFirst("\\{", "{" + Shop.KEYS + ",");
    private static final String TEXTS = NUMBERS.replaceFirst("\\{", "{\"id\": \"string\",");
    private static final float[] VECTOR = {1, 2, 3, 4};

    private final SplittableRandom random = new SplittableRandom(3);
    private final FieldsBuilder fields = new FieldsBuilder(Shop.NUMBERS);

    @Test
    void anUpdateGoesWhereTheRowIs() throws Exception {
        try (PlaceTask task = new PlaceTask(NUMBERS, 0, 1, 0, List.of())) {
            task.put(upsert(5, "colour", "red"));
            task.put(update(5, "price", 9.5));
            task.put(update(6, "price", 1.0));
            List<Write> writes = task.writes();
            assertThat(writes).hasSize(2);
            assertThat(values(writes.get(0))).isEqualTo(Map.of("colour", "red"));
            Write update = writes.get(1);
            assertThat(update.update).isTrue();
            assertThat(update.vector).isEmpty();
            assertThat(update.code).isEqualTo(writes.get(0).code);
            assertThat(update.shard).isEqualTo(writes.get(0).shard);
            assertThat(update.version).isGreaterThan(writes.get(0).version);
            assertThat(values(update)).isEqualTo(Map.of("price", 9.5));
            task.delete(5);
            assertThat(last(task).version).isGreaterThan(update.version);
            task.put(update(5, "price", 2.0));
            assertThat(task.writes()).hasSize(3);
        }
    }

    /** Rows are sent again when they are placed, with all that they carry by then. */
    @Test
    void aTemplateMovesWhatRowsCarry() throws Exception {
        byte[] template = template();
        try (PlaceTask task = new PlaceTask(NUMBERS, 0, 2, 0, List.of())) {
            long id = PlaceOperatorTest.ownId(0, 2, 0);
            VectorRecord first = upsert(id, "colour", "red");
            first.fields = RowFields.of("", 0, first.fields.attributes(), new byte[] {1, 2});
            task.put(first);
            task.put(update(id, "price", 9.5));
            VectorRecord none = update(id, "colour", null);
            task.put(none);
            command(task, Step.ANNOUNCE, template);
            int before = task.writes().size();
            command(task, Step.SWITCH, template);
            Write moved = task.writes().get(before);
            assertThat(moved.update).isFalse();
            assertThat(moved.vector).isEqualTo(VECTOR);
            assertThat(values(moved)).isEqualTo(Map.of("price", 9.5));
            assertThat(moved.fields.payload()).containsExactly(1, 2);
            // Until the hand-over is done, the old copy is updated as well.
            int switched = task.writes().size();
            task.put(update(id, "stock", 1));
            List<Write> both = task.writes().subList(switched, task.writes().size());
            assertThat(both).allMatch(write -> write.update).hasSizeBetween(1, 2);
            command(task, Step.DONE, template);
            int done = task.writes().size();
            task.put(update(id, "stock", 2));
            assertThat(task.writes()).hasSize(done + 1);
        }
    }

    /** The partition refuses such an update, and would refuse the whole row when it is placed. */
    @Test
    void anUpdateThatMakesAHeldRowTooLargeHasNoEffect() throws Exception {
        byte[] template = template();
        try (PlaceTask task = new PlaceTask(NUMBERS, 0, 1, 0, List.of())) {
            List<String> tags = Collections.nCopies(15, "t".repeat(4 << 10));
            task.put(upsert(5, "tags", tags));
            task.put(update(5, "price", 9.5));
            task.put(update(5, "colour", "c".repeat(4 << 10)));
            command(task, Step.ANNOUNCE, template);
            int before = task.writes().size();
            command(task, Step.SWITCH, template);
            Write moved = task.writes().get(before);
            assertThat(moved.update).isFalse();
            assertThat(values(moved)).isEqualTo(Map.of("tags", tags, "price", 9.5));
        }
    }

    @Test
    void anOlderRecordHasNoEffect() throws Exception {
        try (PlaceTask task = new PlaceTask(NUMBERS, 0, 1, 0, List.of())) {
            task.put(ordered(upsert(5, "price", 1.0), 10));
            task.put(ordered(upsert(5, "price", 2.0), 9));
            task.put(ordered(update(5, "price", 3.0), 10));
            assertThat(task.writes()).hasSize(1);
            task.put(ordered(update(5, "price", 4.0), 11));
            assertThat(task.writes()).hasSize(2);
            VectorRecord delete = new VectorRecord();
            delete.delete(5);
            task.put(ordered(delete, 20));
            assertThat(last(task).delete).isTrue();
            // An older event does not bring the row back, also not one of an id never seen.
            task.put(ordered(upsert(5, "price", 5.0), 19));
            delete.delete(6);
            task.put(ordered(delete, 20));
            task.put(ordered(upsert(6, "price", 5.0), 19));
            assertThat(task.writes()).hasSize(3);
            task.put(ordered(upsert(5, "price", 6.0), 21));
            assertThat(values(last(task))).isEqualTo(Map.of("price", 6.0));
            // Without a number a record is applied whatever came before.
            task.put(upsert(5, "price", 7.0));
            assertThat(values(last(task))).isEqualTo(Map.of("price", 7.0));
        }
    }

    @Test
    void twoTextsWithOneHashAreToldApart() throws Exception {
        try (PlaceTask task = new PlaceTask(TEXTS, 0, 1, 0, List.of())) {
            task.put(named(upsert(5, "price", 1.0), "a", 1));
            task.put(named(upsert(5, "price", 2.0), "b", 2));
            task.put(named(update(5, "price", 2.0), "b", 2));
            VectorRecord delete = new VectorRecord();
            delete.delete(5);
            task.put(named(delete, "b", 2));
            assertThat(task.writes()).hasSize(1);
            assertThat(last(task).fields.name()).isEqualTo("a");
            assertThat(task.harness.getSideOutput(BadRecord.TAG))
                    .singleElement()
                    .extracting(refused -> refused.getValue().reason())
                    .isEqualTo(BadRecord.Reason.BAD_ID);
            delete.delete(5);
            task.put(named(delete, "a", 1));
            assertThat(last(task).delete).isTrue();
            task.put(named(upsert(5, "price", 2.0), "b", 2));
            assertThat(last(task).fields.name()).isEqualTo("b");
        }
    }

    private VectorRecord upsert(long id, String attribute, Object value) {
        fields.clear();
        assertThat(fields.set(attribute, value)).isNull();
        VectorRecord record = new VectorRecord();
        record.upsert(id, VECTOR);
        record.fields = fields.row();
        return record;
    }

    private VectorRecord update(long id, String attribute, Object value) {
        fields.clear();
        assertThat(fields.set(attribute, value)).isNull();
        VectorRecord record = new VectorRecord();
        record.update(id, fields.change());
        return record;
    }

    private static VectorRecord ordered(VectorRecord record, long number) {
        record.newer = number;
        return record;
    }

    private static VectorRecord named(VectorRecord record, String name, long check) {
        record.fields = RowFields.of(name, check, record.fields.attributes(), null);
        return record;
    }

    private static Map<String, Object> values(Write write) {
        Schema schema = Shop.NUMBERS;
        return AttributeValues.read(schema, write.fields.attributes());
    }

    private static Write last(PlaceTask task) {
        return task.writes().get(task.writes().size() - 1);
    }

    private static void command(PlaceTask task, Step step, byte[] template) throws Exception {
        task.harness.processElement2(
                new StreamRecord<>(
                        new Command(
                                1,
                                1,
                                step,
                                step == Step.ANNOUNCE ? template : new byte[0],
                                new byte[0])));
    }

    private byte[] template() {
        int rows = 200;
        ByteBuffer sample = BufferLayout.allocate(rows * PlaceTask.DIMENSION * Float.BYTES);
        for (int i = 0; i < rows * PlaceTask.DIMENSION; i++) {
            sample.putFloat(i * Float.BYTES, random.nextFloat());
        }
        try (NativeRouter router = NativeRouter.train(PlaceTask.COLLECTION, sample, rows, 1)) {
            return router.toBytes();
        }
    }
}
