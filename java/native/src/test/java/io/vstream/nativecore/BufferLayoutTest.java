package io.vstream.nativecore;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
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
