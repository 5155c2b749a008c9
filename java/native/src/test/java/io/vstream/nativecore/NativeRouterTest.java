package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.DIMENSION;
import static io.vstream.nativecore.Fixture.assertFails;
import static io.vstream.nativecore.Fixture.direct;
import static io.vstream.nativecore.Fixture.vector;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NativeRouterTest {

    private static final int ROWS = 2000;
    private static final String LSH =
            Fixture.settings(
                    "l2",
                    "{\"kind\":\"lsh\",\"curve\":\"hilbert\",\"families\":4,\"hashes\":4,"
                            + "\"width\":2.0,\"bits\":6}");

    @Test
    void beforeTrainingEveryQueryVisitsEveryPartition() {
        try (NativeRouter router = NativeRouter.unplaced(Fixture.COSINE)) {
            assertThat(router.epoch()).isZero();
            assertThat(router.placed()).isFalse();
            assertThat(fanOut(router, vector(1), 4)).containsExactly(0, 1, 2, 3);
            assertThat(place(router, 1, vector(1))).hasSize(1);
            assertThat(place(router, 1, vector(2))).isEqualTo(place(router, 1, vector(1)));
        }
    }

    @Test
    void theIdEncoderNeedsNoTraining() {
        try (NativeRouter router = NativeRouter.unplaced(Fixture.L2)) {
            assertThat(router.placed()).isTrue();
            assertThat(router.epoch()).isEqualTo(1);
            assertThat(fanOut(router, vector(1), 8)).hasSize(8);
        }
    }

    @Test
    void aTrainedTemplateSurvivesItsBytes() {
        for (String settings : List.of(Fixture.COSINE, LSH)) {
            try (NativeRouter trained = NativeRouter.train(settings, sample(), ROWS, 7);
                    NativeRouter read = NativeRouter.fromBytes(trained.toBytes())) {
                assertThat(trained.placed()).isTrue();
                assertThat(read.placed()).isTrue();
                assertThat(read.epoch()).isEqualTo(7);
                assertThat(read.toBytes()).isEqualTo(trained.toBytes());
                for (long id = 0; id < 200; id++) {
                    assertThat(place(read, id, vector(id)))
                            .isEqualTo(place(trained, id, vector(id)));
                    assertThat(fanOut(read, vector(id), 16))
                            .isEqualTo(fanOut(trained, vector(id), 16));
                }
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4, 7, 128})
    void partitionsAscendAndHoldThePlaceOfTheVectorItself(int parallelism) {
        try (NativeRouter router = NativeRouter.train(Fixture.COSINE, sample(), ROWS, 1)) {
            for (long id = 0; id < 100; id++) {
                List<Integer> partitions = fanOut(router, vector(id), parallelism);
                assertThat(partitions).isSorted().doesNotHaveDuplicates().isNotEmpty();
                assertThat(partitions).allMatch(p -> p >= 0 && p < parallelism);
                int shard = (int) (long) place(router, id, vector(id)).get(0).get(1);
                assertThat(partitions).contains(shard * parallelism / 128);
            }
        }
    }

    @Test
    void badInputIsRefused() {
        float[] nan = vector(1);
        nan[0] = Float.NaN;
        ByteBuffer out = BufferLayout.allocate(1024);
        try (NativeRouter router = NativeRouter.train(Fixture.COSINE, sample(), ROWS, 1)) {
            assertFails(Kind.INVALID, "", () -> router.place(1, direct(nan), out));
            assertFails(Kind.INVALID, "", () -> router.fanOut(direct(nan), 2, out));
            assertFails(Kind.INVALID, "", () -> router.place(1, direct(new float[7]), out));
            assertFails(Kind.INVALID, "too early", () -> router.place(1, direct(1, 2, 3), out));
            assertFails(
                    Kind.INVALID,
                    "too early",
                    () -> router.place(1, direct(vector(1)), BufferLayout.allocate(8)));
            assertFails(
                    Kind.INVALID,
                    "too early",
                    () -> router.fanOut(direct(vector(1)), 2, BufferLayout.allocate(0)));
            for (int parallelism : new int[] {0, -1, 129}) {
                assertFails(
                        Kind.INVALID,
                        "Parallelism " + parallelism,
                        () -> router.fanOut(direct(vector(1)), parallelism, out));
            }
        }
    }

    @Test
    void aSampleThatCannotTrainIsRefused() {
        ByteBuffer sample = sample();
        assertFails(
                Kind.INVALID,
                "too early",
                () -> NativeRouter.train(Fixture.COSINE, sample, ROWS + 1, 1).close());
        assertFails(
                Kind.INVALID,
                "0 or more",
                () -> NativeRouter.train(Fixture.COSINE, sample, -1, 1).close());
        assertFails(
                Kind.INVALID,
                "Epoch -1",
                () -> NativeRouter.train(Fixture.COSINE, sample, ROWS, -1).close());
        assertFails(
                Kind.INVALID, "", () -> NativeRouter.train(Fixture.COSINE, sample, 0, 1).close());
    }

    @Test
    void changedBytesAreCorrupt() {
        byte[] bytes;
        try (NativeRouter router = NativeRouter.train(Fixture.COSINE, sample(), ROWS, 1)) {
            bytes = router.toBytes();
        }
        byte[] cut = Arrays.copyOf(bytes, bytes.length - 1);
        assertFails(Kind.CORRUPT, "", () -> NativeRouter.fromBytes(cut).close());
        bytes[bytes.length / 2] ^= 1;
        assertFails(Kind.CORRUPT, "", () -> NativeRouter.fromBytes(bytes).close());
        assertFails(Kind.CORRUPT, "", () -> NativeRouter.fromBytes(new byte[0]).close());
    }

    @Test
    void boundariesOfOneFamilyShiftAndCodesStay() {
        String one = LSH.replace("\"families\":4", "\"families\":1");
        NativeRouter.Limits limits = new NativeRouter.Limits(true, 1.1, 1.05, 1);
        try (NativeRouter first = NativeRouter.train(one, sample(), ROWS, 1)) {
            assertThat(first.movable()).isTrue();
            assertThat(first.cells()).isZero();
            long[] codes = new long[ROWS / 2];
            for (int id = 0; id < codes.length; id++) {
                codes[id] = place(first, id, drifted(id)).get(0).get(0);
            }
            byte[] next = first.rebalance(loads(codes), 4, limits);
            assertThat(next).isNotEmpty();
            try (NativeRouter second = NativeRouter.fromBytes(next)) {
                assertThat(second.epoch()).isEqualTo(2);
                MovedRanges moves = second.movesSince(first);
                int[] before = new int[4];
                int[] after = new int[4];
                for (int id = 0; id < codes.length; id++) {
                    assertThat(place(second, id, drifted(id)).get(0).get(0)).isEqualTo(codes[id]);
                    boolean same = first.shardOf(codes[id]) == second.shardOf(codes[id]);
                    assertThat(moves.rangeOf(codes[id]) < 0).isEqualTo(same);
                    before[first.shardOf(codes[id]) / 32]++;
                    after[second.shardOf(codes[id]) / 32]++;
                }
                assertThat(largest(after)).isLessThan(largest(before));
                assertThat(largest(after)).isLessThan(codes.length / 4 * 13 / 10);
                assertThat(second.rebalance(loads(codes), 4, limits)).isEmpty();
            }
        }
    }

    @Test
    void nothingMovesWithSeveralFamilies() {
        NativeRouter.Limits limits = new NativeRouter.Limits(true, 1.1, 1.05, 1);
        try (NativeRouter router = NativeRouter.train(LSH, sample(), ROWS, 1)) {
            assertThat(router.movable()).isFalse();
            assertFails(
                    Kind.INVALID,
                    "set families to 1",
                    () -> router.rebalance(loads(new long[0]), 4, limits));
        }
    }

    /** A vector of a stream that has drifted. */
    private static float[] drifted(long id) {
        float[] vector = vector(id);
        for (int i = 0; i < vector.length; i++) {
            vector[i] = vector[i] / 2 + 0.5f;
        }
        return vector;
    }

    private static ByteBuffer loads(long[] codes) {
        ByteBuffer loads = BufferLayout.allocate(MovedRanges.BUCKETS * 16);
        for (long code : codes) {
            int offset = MovedRanges.bucket(code) * 16;
            loads.putDouble(offset, loads.getDouble(offset) + 1);
        }
        return loads;
    }

    private static int largest(int[] counts) {
        return Arrays.stream(counts).max().orElse(0);
    }

    private static ByteBuffer sample() {
        ByteBuffer sample = BufferLayout.allocate(ROWS * DIMENSION * Float.BYTES);
        for (int row = 0; row < ROWS; row++) {
            sample.slice(row * DIMENSION * Float.BYTES, DIMENSION * Float.BYTES)
                    .order(sample.order())
                    .asFloatBuffer()
                    .put(vector(row));
        }
        return sample;
    }

    /** (code, shard) of each placement. */
    private static List<List<Long>> place(NativeRouter router, long id, float[] vector) {
        ByteBuffer out =
                BufferLayout.allocate(BufferLayout.PLACEMENTS_MAX * BufferLayout.PLACEMENT_BYTES);
        int count = router.place(id, direct(vector), out);
        List<List<Long>> placements = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long shard = BufferLayout.placementShard(out, i);
            assertThat(shard).isBetween(0L, 127L);
            placements.add(List.of(BufferLayout.placementCode(out, i), shard));
        }
        return placements;
    }

    private static List<Integer> fanOut(NativeRouter router, float[] query, int parallelism) {
        ByteBuffer out = BufferLayout.allocate(128 * BufferLayout.PARTITION_BYTES);
        int count = router.fanOut(direct(query), parallelism, out);
        List<Integer> partitions = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            partitions.add(BufferLayout.partition(out, i));
        }
        return partitions;
    }
}
