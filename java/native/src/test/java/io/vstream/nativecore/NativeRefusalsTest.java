package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.assertFails;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.nativecore.EngineException.Kind;
import io.vstream.nativecore.Written.Reason;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What an engine refuses of a batch has no effect, and all the rest of the batch has its own. */
class NativeRefusalsTest {

    private static final int DIMENSION = 96;
    private static final int ROWS = 1_000;
    private static final long SEED = 20_261_124;
    private static final int FULL = 20;
    private static final int LAST = 127;
    private static final int SHARD_SEED = 7;

    private static final short TAGS = 0;
    private static final short PRICE = 1;
    private static final short MORE = 2;
    private static final byte KEYWORDS = 1;
    private static final byte F64 = 3;

    @TempDir private Path folder;

    private final SplittableRandom random = new SplittableRandom(SEED);

    /** What was sent and what is there: version by id. */
    private final long[] versions = new long[ROWS];

    private final List<String> expected = new ArrayList<>();
    private long version;
    private int withoutRow;

    /**
     * Batches of a shop of texts as ids. Now and then a record is one that the engine cannot take:
     * a text with the hash of another, an update that would make a row too large, a value of
     * another type, a column that is not there, a vector that is no vector.
     */
    @ParameterizedTest
    @ValueSource(strings = {"", "ann"})
    void refusedRecordsChangeNothingAndAreNamed(String group) {
        int shard = group.isEmpty() ? 0 : NativeGroups.shard(SHARD_SEED, LAST + 1, group);
        try (NativeEngine engine = create(group)) {
            VectorBatch batch = new VectorBatch(DIMENSION, 32);
            List<String> found = new ArrayList<>();
            int missing = 0;
            for (int i = 0; i < 3 * ROWS; i++) {
                int kind = i < ROWS ? 0 : random.nextInt(20);
                int id = i < ROWS ? i : random.nextInt(kind == 2 ? FULL : ROWS);
                version++;
                RowFields named = RowFields.named("sku/" + id, check(id)).in(group);
                RowFields dear = with(named, price(i));
                switch (kind) {
                    case 1 -> {
                        RowFields other = RowFields.named("other/" + id, check(id) + 1).in(group);
                        expected.add("other/" + id + " " + Reason.BAD_ID);
                        put(engine, batch, id, shard, vector(i), other, found);
                    }
                    case 2 -> {
                        expected.add("sku/" + id + " " + Reason.TOO_LARGE);
                        change(engine, batch, id, shard, with(named, tags(MORE, 2)), found);
                    }
                    case 3 -> {
                        expected.add("sku/" + id + " " + Reason.WRONG_TYPE);
                        byte[] wrong = price(i);
                        wrong[0] = (byte) TAGS;
                        put(engine, batch, id, shard, vector(i), with(named, wrong), found);
                    }
                    case 4 -> {
                        expected.add("sku/" + id + " " + Reason.UNKNOWN_ATTRIBUTE);
                        byte[] unknown = price(i);
                        unknown[0] = 9;
                        change(engine, batch, id, shard, with(named, unknown), found);
                    }
                    case 5 -> {
                        expected.add("sku/" + id + " " + Reason.REFUSED);
                        float[] none = vector(i);
                        none[random.nextInt(DIMENSION)] = Float.NaN;
                        put(engine, batch, id, shard, none, dear, found);
                    }
                    case 6 -> {
                        missing++;
                        RowFields nobody = RowFields.named("none/" + id, check(id) + 2).in(group);
                        change(engine, batch, id, shard, with(nobody, price(i)), found);
                    }
                    default -> {
                        versions[id] = version;
                        // These have nearly all bytes of tags that a row may have.
                        RowFields all = id < FULL ? with(named, tags(TAGS, 15)) : dear;
                        if (kind < 12) {
                            put(engine, batch, id, shard, vector(id), all, found);
                        } else {
                            change(engine, batch, id, shard, dear, found);
                        }
                    }
                }
                if (random.nextInt(16) == 0) {
                    write(engine, batch, found);
                }
            }
            write(engine, batch, found);
            assertThat(found).as("seed %d", SEED).isEqualTo(expected);
            assertThat(expected.size()).isGreaterThan(ROWS / 4);
            assertThat(withoutRow).isEqualTo(missing);
            checkRows(engine, group);
        }
    }

    /** What only the sender can have done wrong fails the whole call, before anything changes. */
    @Test
    void rowsOfAnotherPartitionFailTheCall() {
        String settings = settings("");
        try (NativeEngine engine = NativeEngine.createIn(settings, folder.resolve("few"), 0, 3)) {
            VectorBatch batch = new VectorBatch(DIMENSION, 4);
            RowFields first = RowFields.named("a", 1);
            batch.upsert(1, 1, 0, 0, vector(1), first);
            batch.upsert(2, 2, 0, 4, vector(2), RowFields.named("b", 1));
            assertFails(
                    Kind.INVALID,
                    "record 2 of 2: shard 4 is not among",
                    () -> engine.write(batch.buffer(), batch.count()));
            assertThat(engine.statsJson()).contains("\"live-rows\":0");
        }
    }

    @Test
    void aBatchIsToldAsTheGoldenFileSays() throws Exception {
        Written written = Written.read(Golden.bytes("written.hex"));
        assertThat(written)
                .isEqualTo(
                        new Written(
                                1,
                                List.of(
                                        new Written.Refused(2, Reason.TOO_LARGE, "zu gro\u00df"),
                                        new Written.Refused(31, Reason.BAD_ID, ""))));
        assertThat(Written.read(null)).isEqualTo(new Written(0, List.of()));
        List<String> ours =
                Arrays.stream(Reason.values())
                        .map(reason -> reason.ordinal() + " " + reason.name().replace("_", ""))
                        .toList();
        assertThat(ours)
                .usingElementComparator(String.CASE_INSENSITIVE_ORDER)
                .isEqualTo(Golden.lines("refusals.txt"));
        assertThat(Reason.ofCode(6)).isEqualTo(Reason.REFUSED);
        assertThat(Reason.ofCode(-1)).isEqualTo(Reason.REFUSED);
    }

    @Test
    void aBatchNamesItsRecords() {
        VectorBatch batch = new VectorBatch(3, 8);
        RowFields row = with(RowFields.named("gr\u00f6\u00dfe", 5), price(1)).in("ann");
        batch.upsert(-1, 1, 0, 0, new float[3]);
        batch.upsert(7, 2, 0, 0, new float[3], row);
        batch.update(
                8,
                3,
                0,
                0,
                new RowFields("b", 1, price(1), new byte[9], new short[] {0, 1}, false, false)
                        .in("bob"));
        batch.delete(9, 4, 0, 0);
        batch.drop(5, 0, RowFields.NONE.in("eve"));
        List<String> told = new ArrayList<>();
        for (int record = 0; record < batch.count(); record++) {
            told.add(batch.id(record) + "|" + batch.name(record) + "|" + batch.group(record));
        }
        assertThat(told)
                .containsExactly("-1||", "7|gr\u00f6\u00dfe|ann", "8|b|bob", "9||", "0||eve");
        assertThatThrownBy(() -> batch.id(5)).isInstanceOf(IndexOutOfBoundsException.class);
    }

    private NativeEngine create(String group) {
        return NativeEngine.createIn(settings(group), folder.resolve("all"), 0, LAST);
    }

    private static String settings(String group) {
        return "{\"dimension\":"
                + DIMENSION
                + ",\"metric\":\"l2\",\"seed\":"
                + SHARD_SEED
                + ",\"id\":\"string\",\"attributes\":{\"tags\":\"keywords\",\"price\":\"f64\","
                + "\"more\":\"keywords\"}"
                + (group.isEmpty() ? "" : ",\"groups\":{\"mode\":\"isolated\"}")
                + ",\"encoder\":{\"kind\":\"id\"}}";
    }

    private void put(
            NativeEngine engine,
            VectorBatch batch,
            long id,
            int shard,
            float[] vector,
            RowFields fields,
            List<String> found) {
        makeRoom(engine, batch, fields, found);
        batch.upsert(id, version, 0, shard, vector, fields);
    }

    private void change(
            NativeEngine engine,
            VectorBatch batch,
            long id,
            int shard,
            RowFields fields,
            List<String> found) {
        makeRoom(engine, batch, fields, found);
        batch.update(id, version, 0, shard, fields);
    }

    private void makeRoom(
            NativeEngine engine, VectorBatch batch, RowFields fields, List<String> found) {
        if (!batch.hasRoom(fields)) {
            write(engine, batch, found);
            assertThat(batch.hasRoom(fields)).isTrue();
        }
    }

    private void write(NativeEngine engine, VectorBatch batch, List<String> found) {
        Written written = engine.write(batch.buffer(), batch.count());
        for (Written.Refused refused : written.refused()) {
            assertThat(refused.text()).isNotBlank();
            found.add(batch.name(refused.record()) + " " + refused.reason());
        }
        batch.clear();
        withoutRow += written.withoutRow();
    }

    /** Every row is there once, as the newest record that was not refused has it. */
    private void checkRows(NativeEngine engine, String group) {
        assertThat(engine.statsJson()).contains("\"live-rows\":" + ROWS);
        AnswerBatch answers = new AnswerBatch();
        for (int id = 0; id < ROWS; id += 7) {
            QueryBatch queries = new QueryBatch(DIMENSION, 1);
            Asked names = new Asked(Asked.NO_FILTER, new short[] {PRICE}, false, true, Float.NaN);
            queries.add(
                    1,
                    BufferLayout.EFFORT_EXACT,
                    vector(id),
                    group.isEmpty() ? names : names.in(group));
            answers.search(engine, queries);
            assertThat(answers.next()).isTrue();
            assertThat(answers.id(0)).isEqualTo(id);
            assertThat(answers.version(0)).isEqualTo(versions[id]);
            assertThat(answers.fields()[0].name()).isEqualTo("sku/" + id);
        }
    }

    private static long check(long id) {
        return id * 2_654_435_761L + 11;
    }

    private static float[] vector(long seed) {
        SplittableRandom numbers = new SplittableRandom(seed);
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) numbers.nextDouble();
        }
        return vector;
    }

    private static RowFields with(RowFields fields, byte[] attributes) {
        return RowFields.of(fields.name(), fields.check(), attributes, null).in(fields.group());
    }

    private static byte[] price(double value) {
        return ByteBuffer.allocate(11)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putShort(PRICE)
                .put(F64)
                .putDouble(value)
                .array();
    }

    /** So many texts of 4 KiB. */
    private static byte[] tags(short column, int count) {
        byte[] text = "t".repeat(4 << 10).getBytes(StandardCharsets.UTF_8);
        ByteBuffer out =
                ByteBuffer.allocate(5 + count * (2 + text.length)).order(ByteOrder.LITTLE_ENDIAN);
        out.putShort(column).put(KEYWORDS).putShort((short) count);
        for (int i = 0; i < count; i++) {
            out.putShort((short) text.length).put(text);
        }
        return out.array();
    }
}
