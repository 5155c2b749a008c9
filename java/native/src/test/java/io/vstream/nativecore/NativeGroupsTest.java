package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.assertFails;
import static io.vstream.nativecore.Fixture.vector;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A partition of isolated groups behind the border. */
class NativeGroupsTest {

    private static final long SEED = 7;
    private static final int LAST = 127;
    private static final int GROUPS = 200;
    private static final int ROWS = 30;
    private static final String SETTINGS =
            Fixture.L2.replaceFirst(
                    "\\{",
                    "{\"seed\":7,\"attributes\":{\"price\":\"f64\"},"
                            + "\"groups\":{\"mode\":\"isolated\"},");

    /** The bytes of price 9.5. */
    private static final byte[] DEAR = {0, 0, 3, 0, 0, 0, 0, 0, 0, 0x23, 0x40};

    @TempDir private Path folder;

    @Test
    void aQuerySeesItsGroupAlone() {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            write(engine, 0, LAST, 1);
            for (int group = 0; group < GROUPS; group++) {
                List<String> found = search(engine, name(group), 1000);
                assertThat(found).hasSize(ROWS).allMatch(row -> row.endsWith("/1"));
                assertThat(found.get(0)).isEqualTo("0/1");
            }
            assertThat(search(engine, "nobody", 5)).isEmpty();
            assertThat(engine.statsJson()).contains("\"live-rows\":" + GROUPS * ROWS);
        }
    }

    @Test
    void rowsChangeAndGroupsGo() {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            write(engine, 0, LAST, 1);
            RowFields ann = RowFields.NONE.in(name(3));
            int shard = NativeGroups.shard(SEED, LAST + 1, name(3));
            VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 16);
            batch.delete(0, 2, 0, shard, ann);
            batch.update(1, 3, 0, shard, RowFields.of("", 0, DEAR, null).in(name(3)));
            batch.update(999, 4, 0, shard, RowFields.of("", 0, DEAR, null).in(name(3)));
            batch.upsert(2, 0, 0, shard, vector(1), ann);
            assertThat(engine.write(batch.buffer(), batch.count()))
                    .isEqualTo(new Written(1, List.of()));
            List<String> found = search(engine, name(3), 1000);
            assertThat(found).hasSize(ROWS - 1).contains("1/3", "2/1").doesNotContain("0/1");
            assertThat(carried(engine, name(3)).attributes()).isEqualTo(DEAR);
            try (NativeReadSnapshot moment = engine.readSnapshot()) {
                QueryBatch queries = query(name(3), 1, Asked.NOTHING);
                AnswerBatch answers = new AnswerBatch();
                answers.search(moment, queries);
                assertThat(answers.next()).isTrue();
                assertThat(answers.size()).isEqualTo(1);
            }
            batch.clear();
            batch.drop(5, shard, ann);
            batch.upsert(8, 6, 0, shard, vector(8), ann);
            assertThat(engine.write(batch.buffer(), batch.count())).isEqualTo(Written.ALL);
            assertThat(search(engine, name(3), 1000)).containsExactly("8/6");
            assertThat(search(engine, name(4), 1000)).hasSize(ROWS);
        }
    }

    @Test
    void answersFollowWordsAndRanks() {
        String settings = SETTINGS.replace("\"price\":\"f64\"", "\"title\":\"text\"");
        try (NativeEngine engine =
                NativeEngine.createIn(settings, folder.resolve("ranked"), 0, LAST)) {
            String[] titles = {"a letter", "invoice, invoice", "an invoice of last year", "none"};
            VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 16);
            int shard = NativeGroups.shard(SEED, LAST + 1, "ann");
            for (int id = 0; id < titles.length; id++) {
                RowFields title = RowFields.of("", 0, title(titles[id]), null).in("ann");
                batch.upsert(id, 1, 0, shard, vector(id), title);
            }
            engine.write(batch.buffer(), batch.count());

            assertThat(ranked(engine, "{\"text\":\"invoice\",\"vector\":false}"))
                    .containsExactly("1/1", "2/1");
            assertThat(ranked(engine, "{\"text\":\"invoice -year\",\"vector\":true}"))
                    .containsExactly("1/1");
            List<String> farthest = new ArrayList<>(search(engine, "ann", 10));
            Collections.reverse(farthest);
            assertThat(ranked(engine, "{\"rank\":\"distance\",\"vector\":true}"))
                    .isEqualTo(farthest);
            assertThat(
                            ranked(
                                    engine,
                                    "{\"rank\":\"$a * distance\",\"parameters\":{\"a\":-2},"
                                            + "\"vector\":true}"))
                    .isEqualTo(search(engine, "ann", 10));
            assertFails(Kind.INVALID, "no JSON", () -> ranked(engine, "{"));
        }
    }

    /** Scores of 32 bits are one number for times of two minutes, and the order was lost. */
    @Test
    void scoresKeepTheirOrderInAllBits() {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 16);
            int shard = NativeGroups.shard(SEED, LAST + 1, "ann");
            int rows = 8;
            for (int id = 0; id < rows; id++) {
                // The later the nearer, and the larger the id.
                RowFields price = RowFields.of("", 0, price(1.7e12 + id), null).in("ann");
                batch.upsert(id, 1, 0, shard, vector(id), price);
            }
            engine.write(batch.buffer(), batch.count());
            QueryBatch queries = new QueryBatch(Fixture.DIMENSION, 2);
            String order = "{\"rank\":\"attribute(price)\",\"vector\":false}";
            Asked names = new Asked(Asked.NO_FILTER, new short[] {0}, false, false, Float.NaN);
            AnswerBatch answers = new AnswerBatch();
            for (Asked asked : new Asked[] {Asked.NOTHING, names}) {
                queries.clear();
                queries.add(rows, 0, vector(0), asked.in("ann", order));
                queries.add(rows, 0, vector(0), asked.in("ann"));
                answers.search(engine, queries);
                assertThat(answers.next()).isTrue();
                double[] found = answers.order();
                assertThat(found).hasSize(rows);
                for (int row = 0; row < rows; row++) {
                    assertThat(answers.id(row)).isEqualTo(rows - 1 - row);
                    assertThat(found[row]).isEqualTo(-1.7e12 - answers.id(row));
                    assertThat(answers.distance(row)).isEqualTo((float) found[row]);
                }
                assertThat(answers.fields() != null).isEqualTo(asked.wantsFields());
                assertThat(answers.next()).isTrue();
                assertThat(answers.size()).isEqualTo(rows);
                assertThat(answers.order()).isEmpty();
                assertThat(answers.next()).isFalse();
            }
        }
    }

    /** The bytes of a price. */
    private static byte[] price(double value) {
        return ByteBuffer.allocate(3 + Double.BYTES)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putShort((short) 0)
                .put((byte) 3)
                .putDouble(value)
                .array();
    }

    private static List<String> ranked(NativeEngine engine, String order) {
        QueryBatch queries = new QueryBatch(Fixture.DIMENSION, 1);
        queries.add(10, BufferLayout.EFFORT_AUTO, vector(0), Asked.NOTHING.in("ann", order));
        AnswerBatch answers = new AnswerBatch();
        answers.search(engine, queries);
        assertThat(answers.next()).isTrue();
        List<String> found = new ArrayList<>();
        for (int row = 0; row < answers.size(); row++) {
            assertThat(row == 0 || answers.distance(row - 1) <= answers.distance(row)).isTrue();
            found.add(answers.id(row) + "/" + answers.version(row));
        }
        return found;
    }

    /** The bytes of a title. */
    private static byte[] title(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(7 + bytes.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putShort((short) 0)
                .put((byte) 6)
                .putInt(bytes.length)
                .put(bytes)
                .array();
    }

    @Test
    void statesAreContinuedAndDivided() throws IOException {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            write(engine, 0, LAST, 1);
            NativeState shared = engine.share();
            // After the state: neither the restored one nor its parts have it.
            write(engine, 0, LAST, 2);
            Path state = upload(shared, "state");
            try (NativeEngine low = create("low", 0, 50);
                    NativeEngine high = create("high", 51, LAST)) {
                assertThat(low.take(state, 0, 50)).isPositive();
                high.take(state, 51, LAST);
                for (int group = 0; group < GROUPS; group++) {
                    boolean below = NativeGroups.shard(SEED, LAST + 1, name(group)) <= 50;
                    assertThat(search(low, name(group), 1000)).hasSize(below ? ROWS : 0);
                    assertThat(search(high, name(group), 1000)).hasSize(below ? 0 : ROWS);
                }
                write(low, 0, 50, 3);
            }
            try (NativeEngine copy = NativeEngine.open(SETTINGS, state, 0, LAST)) {
                assertThat(search(copy, name(5), 2)).allMatch(row -> row.endsWith("/1"));
            }
        }
    }

    @Test
    void aCollectionOfMoreShardsIsDividedAndGoesOnWithNoOtherNumber() throws IOException {
        int shards = 1_024;
        String more = SETTINGS.replaceFirst("\\{", "{\"shards\":" + shards + ",");
        VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 64);
        try (NativeEngine engine =
                NativeEngine.createIn(more, folder.resolve("all"), 0, shards - 1)) {
            for (int group = 0; group < GROUPS; group++) {
                int shard = NativeGroups.shard(SEED, shards, name(group));
                assertThat(shard / 8).isEqualTo(NativeGroups.shard(SEED, LAST + 1, name(group)));
                batch.upsert(group, 1, 0, shard, vector(1), RowFields.NONE.in(name(group)));
                if (!batch.hasRoom() || group == GROUPS - 1) {
                    engine.write(batch.buffer(), batch.count());
                    batch.clear();
                }
            }
            Path state = upload(engine.share(), "more");
            try (NativeEngine part =
                    NativeEngine.createIn(more, folder.resolve("part"), 600, shards - 1)) {
                assertThat(part.take(state, 600, shards - 1)).isPositive();
                for (int group = 0; group < GROUPS; group++) {
                    boolean own = NativeGroups.shard(SEED, shards, name(group)) >= 600;
                    assertThat(search(part, name(group), 9)).hasSize(own ? 1 : 0);
                }
            }
            assertFails(
                    Kind.INVALID,
                    "with 1024 shards and the settings say 128",
                    () -> NativeEngine.open(SETTINGS, state, 0, LAST));
        }
        assertFails(Kind.INVALID, "300 shards", () -> NativeGroups.shard(SEED, 300, "ann"));
    }

    @Test
    void whatCannotBeIsRefused() {
        try (NativeEngine engine = create("engine", 0, 3)) {
            int elsewhere = 0;
            while (NativeGroups.shard(SEED, LAST + 1, name(elsewhere)) <= 3) {
                elsewhere++;
            }
            VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 4);
            batch.upsert(1, 1, 0, 0, vector(1), RowFields.NONE.in(name(elsewhere)));
            assertFails(
                    Kind.INVALID,
                    "is not among",
                    () -> engine.write(batch.buffer(), batch.count()));
            VectorBatch none = new VectorBatch(Fixture.DIMENSION, 4);
            none.upsert(1, 1, 0, 0, vector(1));
            assertFails(
                    Kind.INVALID,
                    "names no group",
                    () -> engine.write(none.buffer(), none.count()));
            QueryBatch queries = new QueryBatch(Fixture.DIMENSION, 1);
            queries.add(1, 0, vector(1));
            assertFails(
                    Kind.INVALID,
                    "names no group",
                    () -> new AnswerBatch().search(engine, queries));
            assertFails(Kind.UNSUPPORTED, "no snapshot", engine::pin);
            assertThat(engine.aim(1, 0, 0, 0, 0)).isEqualTo(1);
        }
        assertThat(NativeGroups.mayBe("")).isFalse();
        assertThat(NativeGroups.mayBe("\u00f6".repeat(257))).isFalse();
        assertFails(Kind.INVALID, "512", () -> NativeGroups.shard(SEED, LAST + 1, "x".repeat(513)));
    }

    private static String name(int group) {
        return "user-" + group;
    }

    private NativeEngine create(String name, int first, int last) {
        return NativeEngine.createIn(SETTINGS, folder.resolve(name), first, last);
    }

    /** Writes all rows of all groups in these shards. */
    private static void write(NativeEngine engine, int first, int last, long version) {
        VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 64);
        for (int group = 0; group < GROUPS; group++) {
            int shard = NativeGroups.shard(SEED, LAST + 1, name(group));
            RowFields fields = RowFields.NONE.in(name(group));
            for (int id = 0; id < ROWS && shard >= first && shard <= last; id++) {
                if (!batch.hasRoom(fields)) {
                    engine.write(batch.buffer(), batch.count());
                    batch.clear();
                }
                batch.upsert(id, version, 0, shard, vector(id), fields);
            }
        }
        engine.write(batch.buffer(), batch.count());
    }

    private static QueryBatch query(String group, int k, Asked asked) {
        QueryBatch queries = new QueryBatch(Fixture.DIMENSION, 1);
        queries.add(k, BufferLayout.EFFORT_AUTO, vector(0), asked.in(group));
        return queries;
    }

    private static List<String> search(NativeEngine engine, String group, int k) {
        AnswerBatch answers = new AnswerBatch();
        answers.search(engine, query(group, k, Asked.NOTHING));
        assertThat(answers.next()).isTrue();
        List<String> found = new ArrayList<>();
        for (int row = 0; row < answers.size(); row++) {
            found.add(answers.id(row) + "/" + answers.version(row));
        }
        return found;
    }

    /** What row 1 of a group carries. */
    private static RowFields carried(NativeEngine engine, String group) {
        Asked price = new Asked(Asked.NO_FILTER, new short[] {0}, true, false, Float.NaN);
        AnswerBatch answers = new AnswerBatch();
        answers.search(engine, query(group, 1000, price));
        assertThat(answers.next()).isTrue();
        RowFields[] fields = answers.fields();
        for (int row = 0; row < answers.size(); row++) {
            if (answers.id(row) == 1) {
                return fields[row];
            }
        }
        throw new AssertionError("The row is not there.");
    }

    private Path upload(NativeState shared, String name) throws IOException {
        Path state = Files.createDirectory(folder.resolve("state-" + name));
        try (shared) {
            for (NativeState.File file : shared.files()) {
                assertThat(Files.size(file.path())).isEqualTo(file.bytes());
                Files.copy(file.path(), state.resolve(file.name()));
            }
            Files.write(state.resolve(NativeState.MANIFEST), shared.manifest());
        }
        return state;
    }
}
