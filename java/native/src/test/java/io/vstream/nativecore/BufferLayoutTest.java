package io.vstream.nativecore;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** The Java side writes and reads the bytes that the golden files say; buffer.rs does the same. */
class BufferLayoutTest {

    @Test
    void recordsAreWrittenAsTheGoldenFileSays() throws Exception {
        VectorBatch batch = new VectorBatch(3, 4);
        stain(batch.buffer());
        batch.upsert(1, 2, Long.MIN_VALUE, 127, new float[] {1f, -2.5f, 0.125f});
        batch.delete(-1, 3, 0, 0);
        batch.upsert(7, 1L << 40, 5, 64, new float[3]);

        assertThat(batch.count()).isEqualTo(3);
        assertThat(Golden.firstBytes(batch.buffer(), batch.bytes()))
                .isEqualTo(Golden.bytes("records.hex"));
    }

    @Test
    void queriesAreWrittenAsTheGoldenFileSays() throws Exception {
        QueryBatch batch = new QueryBatch(3, 3);
        stain(batch.buffer());
        batch.clear();
        batch.add(10, BufferLayout.EFFORT_AUTO, new float[] {1f, 2f, 3f});
        batch.add(1, BufferLayout.EFFORT_EXACT, new float[] {-1f, 0.5f, 0f});
        batch.add(1000, 16, new float[] {0.25f, 0.25f, 0.25f});

        assertThat(batch.hasRoom()).isFalse();
        assertThat(batch.answerBytes()).isEqualTo(3 * 8 + (10 + 1 + 1000) * 24);
        assertThat(Golden.firstBytes(batch.buffer(), batch.bytes()))
                .isEqualTo(Golden.bytes("queries.hex"));
    }

    /** What the first row of the golden files carries. */
    private static RowFields carried() {
        byte[] attributes =
                HexFormat.of()
                        .parseHex(
                                "00000003000000726564"
                                        + "010001020001006102006263"
                                        + "0200030000000000002340"
                                        + "04000401"
                                        + "050005ffffffffffffffff");
        return RowFields.of(
                "gr\u00f6\u00dfe",
                0x1122334455667788L,
                attributes,
                "{\"a\":1}".getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void fieldsAreWrittenAsTheGoldenFileSays() throws Exception {
        VectorBatch batch = new VectorBatch(3, 16);
        stain(batch.buffer());
        batch.upsert(1, 2, Long.MIN_VALUE, 127, new float[] {1f, -2.5f, 0.125f}, carried());
        byte[] price = HexFormat.of().parseHex("020003000000000000e0bf");
        RowFields change = new RowFields("", 0, price, null, new short[] {0, 3}, true, false);
        batch.update(9, 3, 5, 0, change);
        batch.upsert(7, 4, 5, 64, new float[3], RowFields.named("x", -1));

        assertThat(batch.count()).isEqualTo(3);
        assertThat(Golden.firstBytes(batch.buffer(), batch.bytes()))
                .isEqualTo(Golden.bytes("records-fields.hex"));
    }

    @Test
    void whatQueriesAskIsWrittenAsTheGoldenFileSays() throws Exception {
        QueryBatch batch = new QueryBatch(3, 2);
        stain(batch.buffer());
        batch.clear();
        batch.add(
                10,
                BufferLayout.EFFORT_AUTO,
                new float[] {1f, 2f, 3f},
                new Asked(new byte[] {1, 2, 3}, new short[] {0, 2}, true, true, 0.5f));
        batch.add(1, BufferLayout.EFFORT_EXACT, new float[] {-1f, 0.5f, 0f});

        assertThat(batch.wantsFields()).isTrue();
        assertThat(Golden.firstBytes(batch.buffer(), batch.bytes()))
                .isEqualTo(Golden.bytes("queries-asked.hex"));
        batch.clear();
        batch.add(1, 0, new float[3]);
        assertThat(batch.wantsFields()).isFalse();
        assertInvalid(() -> batch.add(1, 0, new float[3], Asked.NOTHING), "asks nothing");
    }

    @Test
    void groupsAreWrittenAsTheGoldenFilesSay() throws Exception {
        VectorBatch batch = new VectorBatch(3, 16);
        stain(batch.buffer());
        RowFields ann = RowFields.NONE.in("ann");
        batch.upsert(1, 2, 0, 5, new float[] {1f, -2.5f, 0.125f}, ann);
        batch.drop(3, 5, ann);
        batch.delete(7, 4, 0, 5, ann);
        assertThat(Golden.firstBytes(batch.buffer(), batch.bytes()))
                .isEqualTo(Golden.bytes("records-groups.hex"));

        QueryBatch queries = new QueryBatch(3, 1);
        stain(queries.buffer());
        queries.clear();
        Asked asked = new Asked(Asked.NO_FILTER, new short[] {2}, false, false, Float.NaN);
        queries.add(10, BufferLayout.EFFORT_AUTO, new float[] {1f, 2f, 3f}, asked.in("ann", "{}"));
        assertThat(Golden.firstBytes(queries.buffer(), queries.bytes()))
                .isEqualTo(Golden.bytes("queries-groups.hex"));
    }

    @Test
    void fieldsOfAnswersAreReadAsTheGoldenFileSays() throws Exception {
        ByteBuffer buffer = Golden.direct("answers-fields.hex");
        AnswerBatch answers = new AnswerBatch();
        answers.read(buffer, buffer.capacity());

        assertThat(answers.next()).isTrue();
        assertThat(answers.id(1)).isEqualTo(-1);
        RowFields[] fields = answers.fields();
        assertThat(fields[0]).isEqualTo(carried());
        assertThat(fields[1].leftOut()).isTrue();
        assertThat(answers.next()).isTrue();
        assertThat(answers.id(0)).isEqualTo(5);
        assertThat(answers.fields()).isNull();
        assertThat(answers.next()).isFalse();
    }

    @Test
    void theOrderOfAnswersIsReadAsTheGoldenFileSays() throws Exception {
        ByteBuffer buffer = Golden.direct("answers-order.hex");
        AnswerBatch answers = new AnswerBatch();
        answers.read(buffer, buffer.capacity());
        for (boolean carry : new boolean[] {true, false}) {
            assertThat(answers.next()).isTrue();
            assertThat(answers.id(0)).isEqualTo(2);
            assertThat(answers.id(1)).isEqualTo(1);
            assertThat(answers.distance(0)).isEqualTo(answers.distance(1)).isEqualTo(1.7e12f);
            assertThat(answers.order()).containsExactly(1.7e12, 1.7e12 + 1);
            RowFields[] fields = answers.fields();
            if (carry) {
                assertThat(fields).allMatch(RowFields::leftOut);
            } else {
                assertThat(fields).isNull();
            }
        }
        assertThat(answers.next()).isFalse();

        ByteBuffer byDistance = Golden.direct("answers.hex");
        answers.read(byDistance, byDistance.capacity());
        while (answers.next()) {
            assertThat(answers.order()).isEmpty();
        }
    }

    @Test
    void anAnswerInAnOrderHasRoomForIt() {
        QueryBatch queries = new QueryBatch(3, 2);
        queries.add(10, 0, new float[3], Asked.NOTHING.in("ann", "{}"));
        assertThat(queries.answerBytes()).isEqualTo(8 + 10 * (24 + 8));
        queries.add(10, 0, new float[3], Asked.NOTHING.in("ann"));
        assertThat(queries.answerBytes()).isEqualTo(2 * 8 + 10 * (24 + 8) + 10 * 24);
    }

    /** A payload larger than the whole batch has room once the batch is empty. */
    @Test
    void anEmptyBatchGrowsForALargePayload() {
        VectorBatch batch = new VectorBatch(64, 2);
        RowFields large = RowFields.of("", 0, RowFields.NO_ATTRIBUTES, new byte[1 << 20]);
        batch.upsert(1, 1, 0, 0, new float[64]);
        assertThat(batch.hasRoom(large)).isFalse();
        assertInvalid(() -> batch.upsert(2, 2, 0, 0, new float[64], large), "full");
        batch.clear();
        assertThat(batch.hasRoom(large)).isTrue();
        batch.upsert(2, 2, 0, 0, new float[64], large);
        assertThat(batch.bytes()).isEqualTo(BufferLayout.upsertBytes(64) + 32 + (1 << 20));
    }

    @Test
    void answersAreReadAsTheGoldenFileSays() throws Exception {
        ByteBuffer buffer = Golden.direct("answers.hex");
        AnswerBatch answers = new AnswerBatch();
        answers.read(buffer, buffer.capacity());

        assertThat(answers.next()).isTrue();
        assertThat(answers.size()).isEqualTo(2);
        assertThat(answers.leavesScanned()).isEqualTo(4);
        assertThat(answers.id(0)).isEqualTo(1);
        assertThat(answers.version(0)).isEqualTo(2);
        assertThat(answers.distance(0)).isEqualTo(0.5f);
        assertThat(answers.id(1)).isEqualTo(-1);
        assertThat(answers.version(1)).isEqualTo(3);
        assertThat(answers.distance(1)).isEqualTo(1.5f);
        assertThatThrownBy(() -> answers.id(2)).isInstanceOf(IndexOutOfBoundsException.class);

        assertThat(answers.next()).isTrue();
        assertThat(answers.size()).isZero();
        assertThat(answers.leavesScanned()).isZero();
        assertThat(answers.next()).isFalse();
    }

    @Test
    void placementsAndPartitionsLieWhereTheGoldenFileSays() throws Exception {
        ByteBuffer buffer = Golden.direct("placements.hex");
        int partitions = 2 * BufferLayout.PLACEMENT_BYTES;

        assertThat(BufferLayout.placementCode(buffer, 0)).isEqualTo(Long.MIN_VALUE);
        assertThat(BufferLayout.placementShard(buffer, 0)).isEqualTo(127);
        assertThat(BufferLayout.placementCode(buffer, 1)).isEqualTo(5);
        assertThat(BufferLayout.placementShard(buffer, 1)).isZero();
        ByteBuffer tail =
                buffer.slice(partitions, 2 * BufferLayout.PARTITION_BYTES)
                        .order(ByteOrder.nativeOrder());
        assertThat(BufferLayout.partition(tail, 0)).isZero();
        assertThat(BufferLayout.partition(tail, 1)).isEqualTo(3);
    }

    @Test
    void vectorsArePaddedToEightBytes() {
        assertThat(BufferLayout.vectorBytes(1)).isEqualTo(8);
        assertThat(BufferLayout.vectorBytes(2)).isEqualTo(8);
        assertThat(BufferLayout.vectorBytes(3)).isEqualTo(16);
        assertThat(BufferLayout.vectorBytes(4096)).isEqualTo(16384);
        assertThat(BufferLayout.upsertBytes(100)).isEqualTo(432);
        assertThat(BufferLayout.queryBytes(3)).isEqualTo(24);
        assertThat(BufferLayout.answerBytes(10)).isEqualTo(248);
    }

    @Test
    void aPartialAnswerSaysSoBesideItsLeaves() {
        ByteBuffer buffer = BufferLayout.allocate(16);
        buffer.putInt(4, 4).putInt(12, -5);
        AnswerBatch answers = new AnswerBatch();
        answers.read(buffer, 16);
        assertThat(answers.next()).isTrue();
        assertThat(answers.partial()).isFalse();
        assertThat(answers.leavesScanned()).isEqualTo(4);
        assertThat(answers.next()).isTrue();
        assertThat(answers.partial()).isTrue();
        assertThat(answers.leavesScanned()).isEqualTo(4);
    }

    @Test
    void aBatchRefusesAnotherDimensionAndMoreThanItHolds() {
        VectorBatch vectors = new VectorBatch(3, 1);
        assertInvalid(() -> vectors.upsert(1, 1, 0, 0, new float[2]), "2 elements");
        vectors.upsert(1, 1, 0, 0, new float[3]);
        assertThat(vectors.hasRoom()).isFalse();
        assertInvalid(() -> vectors.delete(1, 2, 0, 0), "full");
        vectors.clear();
        assertThat(vectors.isEmpty()).isTrue();
        assertThat(vectors.hasRoom()).isTrue();

        QueryBatch queries = new QueryBatch(3, 1);
        assertInvalid(() -> queries.add(1, 0, new float[4]), "4 elements");
        queries.add(1, 0, new float[3]);
        assertInvalid(() -> queries.add(1, 0, new float[3]), "full");
    }

    private static void assertInvalid(Runnable call, String sentence) {
        assertThatThrownBy(call::run)
                .isInstanceOfSatisfying(
                        EngineException.class,
                        e -> assertThat(e.kind()).isEqualTo(EngineException.Kind.INVALID))
                .hasMessageContaining(sentence);
    }

    /** A reused buffer holds the bytes of the last batch; none may shine through. */
    private static void stain(ByteBuffer buffer) {
        for (int at = 0; at < buffer.capacity(); at++) {
            buffer.put(at, (byte) 0xff);
        }
    }
}
