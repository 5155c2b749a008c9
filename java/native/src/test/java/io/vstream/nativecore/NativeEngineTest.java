package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.DIMENSION;
import static io.vstream.nativecore.Fixture.assertFails;
import static io.vstream.nativecore.Fixture.vector;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeEngineTest {

    @Test
    void aMomentSeesNoWriteThatCameLater() {
        NativeReadSnapshot before;
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 1_000, 1);
            before = engine.readSnapshot();
            Fixture.upsert(engine, 0, 500, 2);
            Fixture.delete(engine, 500, 600, 2);
            Fixture.upsert(engine, 1_000, 2_000, 1);
            for (int effort : new int[] {BufferLayout.EFFORT_EXACT, 1_000}) {
                assertThat(ask(before, 7, effort)).isEqualTo("7/1");
                assertThat(ask(before, 550, effort)).isEqualTo("550/1");
                assertThat(ask(before, 1_500, effort)).isNotEqualTo("1500/1");
            }
            assertThat(Fixture.search(engine, Fixture.vector(7), 1)).containsExactly("7/2");
        }
        assertThat(ask(before, 7, BufferLayout.EFFORT_EXACT))
                .as("after the engine")
                .isEqualTo("7/1");
        before.close();
        before.close();
        Fixture.assertFails(
                EngineException.Kind.CLOSED,
                "moment",
                () -> ask(before, 7, BufferLayout.EFFORT_EXACT));
    }

    private static String ask(NativeReadSnapshot moment, long id, int effort) {
        QueryBatch queries = new QueryBatch(Fixture.DIMENSION, 1);
        queries.add(1, effort, Fixture.vector(id));
        AnswerBatch answers = new AnswerBatch();
        answers.search(moment, queries);
        assertThat(answers.next()).isTrue();
        return answers.id(0) + "/" + answers.version(0);
    }

    @TempDir Path directory;

    @Test
    void whatIsWrittenIsFoundAndWhatIsDeletedIsNot() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 500, 1);
            assertThat(Fixture.search(engine, vector(123), 1)).containsExactly("123/1");

            Fixture.delete(engine, 123, 124, 2);
            assertThat(Fixture.search(engine, vector(123), 500))
                    .hasSize(499)
                    .doesNotContain("123/1");

            Fixture.upsert(engine, 200, 201, 9);
            assertThat(Fixture.search(engine, vector(200), 1)).containsExactly("200/9");
            Fixture.upsert(engine, 200, 201, 8);
            assertThat(Fixture.search(engine, vector(200), 1)).containsExactly("200/9");
            assertThat(engine.statsJson()).contains("\"live-rows\":499");
        }
    }

    @Test
    void distancesAreThoseOfTheMetricAndAscend() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, -20, 20, 1);
            QueryBatch queries = new QueryBatch(DIMENSION, 2);
            queries.add(40, BufferLayout.EFFORT_EXACT, vector(-3));
            queries.add(5, BufferLayout.EFFORT_AUTO, vector(-3));
            AnswerBatch answers = new AnswerBatch();
            answers.search(engine, queries);

            assertThat(answers.next()).isTrue();
            assertThat(answers.size()).isEqualTo(40);
            assertThat(answers.id(0)).isEqualTo(-3);
            for (int row = 0; row < 40; row++) {
                float expected = squaredDistance(vector(-3), vector(answers.id(row)));
                assertThat(Math.abs(answers.distance(row) - expected))
                        .isLessThanOrEqualTo(1e-5f * (1f + expected));
                assertThat(row == 0 || answers.distance(row) >= answers.distance(row - 1)).isTrue();
            }
            assertThat(answers.next()).isTrue();
            assertThat(answers.size()).isEqualTo(5);
            assertThat(answers.id(0)).isEqualTo(-3);
            assertThat(answers.next()).isFalse();
        }
    }

    @Test
    void aSnapshotRestoresToTheSameAnswers() throws Exception {
        Path snapshot = directory.resolve("snapshot");
        List<String> before;
        try (NativeEngine engine = NativeEngine.create(Fixture.COSINE)) {
            Fixture.upsert(engine, 0, 1000, 5);
            Fixture.delete(engine, 300, 400, 6);
            before = Fixture.search(engine, vector(350), 50);
            engine.snapshot(snapshot);
            Fixture.delete(engine, 0, 1000, 7);
            assertThat(Fixture.search(engine, vector(350), 50)).isEmpty();
        }
        try (Stream<Path> files = Files.list(snapshot)) {
            assertThat(files.map(file -> file.getFileName().toString()))
                    .contains("MANIFEST", "shard-000.rows", "shard-127.rows");
        }
        try (NativeEngine restored = NativeEngine.restore(Fixture.COSINE, snapshot)) {
            assertThat(Fixture.search(restored, vector(350), 50)).isEqualTo(before);
        }
    }

    @Test
    void shardFilesAloneRestoreTheirRows() throws Exception {
        Path snapshot = directory.resolve("snapshot");
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 256, 1);
            engine.snapshot(snapshot);
        }
        Path chosen = Files.createDirectory(directory.resolve("chosen"));
        for (String file : List.of("shard-003.rows", "shard-100.rows")) {
            Files.copy(snapshot.resolve(file), chosen.resolve(file));
        }
        try (NativeEngine restored = NativeEngine.restore(Fixture.L2, chosen)) {
            assertThat(Fixture.search(restored, vector(3), 10))
                    .containsExactlyInAnyOrder("3/1", "131/1", "100/1", "228/1");
        }
    }

    @Test
    void aDirectoryThatCannotBeUsedIsNamed() throws Exception {
        Path file = Files.writeString(directory.resolve("file"), "in the way");
        Path missing = directory.resolve("missing");
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 10, 1);
            assertFails(Kind.IO, "file", () -> engine.snapshot(file.resolve("below")));
            assertThat(Fixture.search(engine, vector(4), 1)).containsExactly("4/1");
        }
        assertFails(Kind.IO, "missing", () -> NativeEngine.restore(Fixture.L2, missing).close());
    }

    @Test
    void aDamagedSnapshotIsRefused() throws Exception {
        Path snapshot = directory.resolve("snapshot");
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 10, 1);
            engine.snapshot(snapshot);
        }
        Path file = snapshot.resolve("shard-004.rows");
        byte[] bytes = Files.readAllBytes(file);
        Files.write(file, java.util.Arrays.copyOf(bytes, bytes.length - 1));
        assertFails(
                Kind.CORRUPT,
                "shard-004.rows",
                () -> NativeEngine.restore(Fixture.L2, snapshot).close());
    }

    @Test
    void badSettingsAreRefusedInSentences() {
        assertFails(Kind.INVALID, "dimension", () -> NativeEngine.create("{}").close());
        assertFails(Kind.INVALID, "metric", () -> NativeEngine.create("{}").close());
        assertFails(Kind.INVALID, "", () -> NativeEngine.create("no json").close());
        String normalized = NativeSettings.normalize(Fixture.L2);
        assertThat(normalized).contains("\"recall-target\":").contains("\"seed\":");
        assertThat(NativeSettings.normalize(normalized)).isEqualTo(normalized);
    }

    @Test
    void numbersThatAreNotFiniteChangeNothing() {
        for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY, -1f / 0f}) {
            float[] vector = vector(1);
            vector[DIMENSION - 1] = bad;
            try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
                VectorBatch batch = new VectorBatch(DIMENSION, 2);
                batch.upsert(1, 1, 0, 0, vector(1));
                batch.upsert(2, 1, 0, 0, vector);
                assertRefused(engine.write(batch.buffer(), 2), 1, "finite");
                assertThat(Fixture.search(engine, vector(1), 5)).containsExactly("1/1");
                assertFails(Kind.INVALID, "finite", () -> Fixture.search(engine, vector, 1));
            }
        }
    }

    @Test
    void aVectorWithoutDirectionIsRefusedUnderCosine() {
        try (NativeEngine engine = NativeEngine.create(Fixture.COSINE)) {
            VectorBatch batch = new VectorBatch(DIMENSION, 1);
            batch.upsert(1, 1, 0, 0, new float[DIMENSION]);
            assertRefused(engine.write(batch.buffer(), 1), 0, "cosine");
            assertThat(Fixture.search(engine, vector(1), 5)).isEmpty();
            assertFails(
                    Kind.INVALID, "cosine", () -> Fixture.search(engine, new float[DIMENSION], 1));
        }
    }

    private static void assertRefused(Written written, int record, String sentence) {
        assertThat(written.withoutRow()).isZero();
        assertThat(written.refused())
                .singleElement()
                .satisfies(
                        refused -> {
                            assertThat(refused.record()).isEqualTo(record);
                            assertThat(refused.reason()).isEqualTo(Written.Reason.REFUSED);
                            assertThat(refused.text()).contains(sentence);
                        });
    }

    @Test
    void aVectorOfAnotherDimensionIsRefused() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            VectorBatch batch = new VectorBatch(DIMENSION - 2, 1);
            batch.upsert(1, 1, 0, 0, new float[DIMENSION - 2]);
            assertFails(Kind.INVALID, "too early", () -> engine.write(batch.buffer(), 1));
            float[] query = new float[DIMENSION - 2];
            assertFails(Kind.INVALID, "too early", () -> Fixture.search(engine, query, 1));
        }
    }

    @Test
    void kOutOfRangeIsRefused() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            for (int k : new int[] {0, -1, 1001}) {
                QueryBatch queries = new QueryBatch(DIMENSION, 1);
                queries.add(k, BufferLayout.EFFORT_AUTO, vector(1));
                ByteBuffer answers = BufferLayout.allocate(1 << 16);
                assertFails(
                        Kind.INVALID, "k is " + k, () -> engine.search(queries.buffer(), answers));
            }
        }
    }

    @Test
    void unsuitableBuffersAreRefused() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            VectorBatch batch = new VectorBatch(DIMENSION, 1);
            batch.upsert(1, 1, 0, 0, vector(1));
            ByteBuffer good = batch.buffer();
            assertFails(Kind.INVALID, "too early", () -> engine.write(good, 2));
            assertFails(Kind.INVALID, "0 or more", () -> engine.write(good, -1));
            assertFails(Kind.INVALID, "direct", () -> engine.write(null, 1));
            assertFails(
                    Kind.INVALID,
                    "direct",
                    () -> engine.write(ByteBuffer.allocate(64).order(ByteOrder.nativeOrder()), 1));
            assertFails(
                    Kind.INVALID,
                    "byte order",
                    () -> engine.write(good.duplicate().order(ByteOrder.BIG_ENDIAN), 1));
            ByteBuffer shifted = good.slice(4, 32).order(ByteOrder.nativeOrder());
            assertFails(Kind.INVALID, "multiple of 8", () -> engine.write(shifted, 1));
            assertThat(Fixture.search(engine, vector(1), 1)).isEmpty();
            engine.write(good, 1);
            assertThat(Fixture.search(engine, vector(1), 1)).containsExactly("1/1");
        }
    }

    @Test
    void answersThatDoNotFitAreRefusedBeforeAnyWork() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 10, 1);
            QueryBatch queries = new QueryBatch(DIMENSION, 2);
            queries.add(10, BufferLayout.EFFORT_AUTO, vector(1));
            queries.add(10, BufferLayout.EFFORT_AUTO, vector(2));
            ByteBuffer small = BufferLayout.allocate(queries.answerBytes() - 1);
            small.putLong(0, 42);
            assertFails(Kind.INVALID, "too early", () -> engine.search(queries.buffer(), small));
            assertThat(small.getLong(0)).isEqualTo(42);

            ByteBuffer readOnly = BufferLayout.allocate(queries.answerBytes()).asReadOnlyBuffer();
            assertFails(
                    Kind.INVALID,
                    "read-only",
                    () -> engine.search(queries.buffer(), readOnly.order(ByteOrder.nativeOrder())));
            ByteBuffer shared = BufferLayout.allocate(4096);
            shared.put(0, Golden.firstBytes(queries.buffer(), queries.bytes()));
            assertFails(Kind.INVALID, "overlap", () -> engine.search(shared, shared));
        }
    }

    @Test
    void anEmptyBatchIsNoWork() {
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            engine.write(new VectorBatch(DIMENSION, 1).buffer(), 0);
            QueryBatch queries = new QueryBatch(DIMENSION, 1);
            assertThat(engine.search(queries.buffer(), BufferLayout.allocate(0))).isZero();
        }
    }

    private static float squaredDistance(float[] a, float[] b) {
        float sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += (a[i] - b[i]) * (a[i] - b[i]);
        }
        return sum;
    }
}
