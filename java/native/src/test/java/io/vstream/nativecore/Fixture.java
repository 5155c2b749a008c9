package io.vstream.nativecore;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.vstream.nativecore.EngineException.Kind;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** A small collection and the calls that the tests repeat. */
final class Fixture {

    static final int DIMENSION = 7;
    static final String L2 = settings("l2", "{\"kind\":\"id\"}");
    static final String COSINE = settings("cosine", "{\"kind\":\"cells\",\"cells\":16}");

    private Fixture() {}

    static String settings(String metric, String encoder) {
        return "{\"dimension\":"
                + DIMENSION
                + ",\"metric\":\""
                + metric
                + "\",\"encoder\":"
                + encoder
                + "}";
    }

    /** The same vector for the same id, always; no two ids share one. */
    static float[] vector(long id) {
        Random random = new Random(id * 31 + 7);
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) random.nextGaussian();
        }
        return vector;
    }

    static int shard(long id) {
        return (int) Math.floorMod(id, 128L);
    }

    static void upsert(NativeEngine engine, long from, long to, long version) {
        VectorBatch batch = new VectorBatch(DIMENSION, 64);
        for (long id = from; id < to; id++) {
            if (!batch.hasRoom()) {
                engine.write(batch.buffer(), batch.count());
                batch.clear();
            }
            batch.upsert(id, version, shard(id), shard(id), vector(id));
        }
        engine.write(batch.buffer(), batch.count());
    }

    static void delete(NativeEngine engine, long from, long to, long version) {
        VectorBatch batch = new VectorBatch(DIMENSION, (int) (to - from));
        for (long id = from; id < to; id++) {
            batch.delete(id, version, shard(id), shard(id));
        }
        engine.write(batch.buffer(), batch.count());
    }

    /** Ids and versions of the exact answer, as {@code id/version}, nearest first. */
    static List<String> search(NativeEngine engine, float[] query, int k) {
        QueryBatch queries = new QueryBatch(query.length, 1);
        queries.add(k, BufferLayout.EFFORT_EXACT, query);
        AnswerBatch answers = new AnswerBatch();
        answers.search(engine, queries);
        assertThat(answers.next()).isTrue();
        List<String> found = new ArrayList<>();
        for (int row = 0; row < answers.size(); row++) {
            found.add(answers.id(row) + "/" + answers.version(row));
        }
        assertThat(answers.next()).isFalse();
        return found;
    }

    static ByteBuffer direct(float... vector) {
        ByteBuffer buffer = BufferLayout.allocate(BufferLayout.vectorBytes(vector.length));
        BufferLayout.putVector(buffer, 0, vector);
        return buffer;
    }

    static void assertFails(Kind kind, String sentence, Runnable call) {
        EngineException e = catchThrowableOfType(EngineException.class, call::run);
        assertThat(e).as("an EngineException").isNotNull();
        assertThat(e).hasMessageContaining(sentence);
        assertThat(e.kind()).isEqualTo(kind);
    }
}
