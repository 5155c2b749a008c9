package io.vstream.flink.merge;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.search.Neighbors;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class RankingTest {

    private final Ranking ranking = new Ranking();

    @Test
    void keepsTheHighestVersionOfAnIdEvenIfItIsFarther() {
        Neighbors one = rows(new long[] {1, 2}, new long[] {5, 1}, new float[] {0.1f, 0.2f});
        Neighbors other = rows(new long[] {1}, new long[] {6}, new float[] {0.9f});
        assertThat(ids(10, one, other)).containsExactly(2L, 1L);
        assertThat(ranking.distance(1)).isEqualTo(0.9f);
        assertThat(ids(10, other, one)).containsExactly(2L, 1L);
    }

    @Test
    void olderCopiesCrowdNoRowOut() {
        // Row 1 has left the first partition, which has row 4 at 0.4 and was not asked for it.
        Neighbors one =
                rows(new long[] {1, 2, 3}, new long[] {5, 1, 1}, new float[] {0.1f, 0.2f, 0.3f});
        Neighbors far =
                rows(new long[] {7, 8, 1}, new long[] {1, 1, 6}, new float[] {0.7f, 0.8f, 0.9f});
        assertThat(ids(3, one, far)).containsExactly(1L, 2L, 3L);
        assertThat(ids(3, far, one)).containsExactly(1L, 2L, 3L);
        // Where the others are near enough, nothing is missing.
        Neighbors near =
                rows(new long[] {7, 8, 1}, new long[] {1, 1, 6}, new float[] {0.1f, 0.2f, 0.9f});
        assertThat(ids(3, one, near)).containsExactly(7L, 2L, 8L);
        // Nor if the partition has no other row.
        assertThat(ids(4, one, far)).containsExactly(2L, 3L, 7L, 8L);
    }

    @Test
    void breaksTiesByUnsignedId() {
        Neighbors rows = rows(new long[] {-1, 9, 0}, new long[3], new float[] {1, 1, 1});
        assertThat(ids(10, rows)).containsExactly(0L, 9L, -1L);
    }

    @Test
    void sortsNegativeDistances() {
        Neighbors rows = rows(new long[] {2, 1, 3}, new long[3], new float[] {-3, -1, 2});
        assertThat(ids(3, rows)).containsExactly(2L, 1L, 3L);
    }

    /** Times of one minute are one number in 32 bits: such rows came by their ids. */
    @Test
    void rowsWithAnOrderStandByAllOfIt() {
        double time = -1.7e12;
        Neighbors one = ordered(new long[] {9, 3}, time, time + 2);
        Neighbors other = ordered(new long[] {5, 1}, time + 1, time + 3);
        assertThat(one.distances()[0]).isEqualTo(other.distances()[1]);
        assertThat(ids(10, one)).containsExactly(9L, 3L);
        assertThat(ids(3, one, other)).containsExactly(9L, 5L, 3L);
        assertThat(ids(3, Neighbors.NONE, other, one)).containsExactly(9L, 5L, 3L);
        assertThat(ranking.distance(2)).isEqualTo((float) time);
        // A newer copy of a row takes its place.
        Neighbors copy = ordered(new long[] {3}, time - 1);
        copy.versions()[0] = 1;
        assertThat(ids(3, one, other, copy)).containsExactly(3L, 9L, 5L);
        // 0 and -0 are one, and what is no number stands last.
        Neighbors odd = ordered(new long[] {7, 2, 4, 6}, Double.NEGATIVE_INFINITY, 0.0, -0.0, 1);
        odd.order()[3] = Double.NaN;
        assertThat(ids(10, odd, ordered(new long[] {3}, 0.0), ordered(new long[] {8}, 1e300)))
                .containsExactly(7L, 2L, 3L, 4L, 8L, 6L);
    }

    /** An old copy crowds a row out that is farther in the last bits of the order alone. */
    @Test
    void howFarAListReachesIsKnownToTheLastBit() {
        double time = 1.7e12;
        Neighbors one = ordered(new long[] {9, 8}, time, time + 1);
        Neighbors far = ordered(new long[] {7, 9}, time + 2, time + 3);
        far.versions()[1] = 6;
        assertThat(ids(2, one, far)).containsExactly(9L, 8L);
    }

    @Test
    void ordersEqualASortOfEverything() {
        for (long seed = 0; seed < 200; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int count = random.nextInt(200);
            double[] keys = new double[count];
            long[] ids = new long[count];
            List<Integer> expected = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                // Many are equal, in all bits or in the first 32.
                double large = 1e12 * (random.nextInt(3) - 1) + random.nextInt(20);
                keys[i] = random.nextBoolean() ? large : random.nextInt(5) - 2;
                ids[i] = ((long) random.nextInt(4) << 62) + i;
                expected.add(i);
            }
            expected.sort(
                    Comparator.<Integer>comparingDouble(i -> keys[i])
                            .thenComparing(i -> ids[i], Long::compareUnsigned));
            List<Long> sorted = expected.stream().map(i -> ids[i]).toList();
            assertThat(ids(count + 1, ordered(ids, keys))).as("seed %d", seed).isEqualTo(sorted);
        }
    }

    private static Neighbors ordered(long[] ids, double... order) {
        float[] distances = new float[ids.length];
        for (int i = 0; i < ids.length; i++) {
            distances[i] = (float) order[i];
        }
        return new Neighbors(ids, new long[ids.length], distances, order, null);
    }

    @Test
    void equalsASortOfEverything() {
        for (long seed = 0; seed < 200; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            // All that a partition has: nothing is left out.
            int k = 61 + random.nextInt(50);
            Map<Long, float[]> best = new HashMap<>();
            Neighbors[] parts = new Neighbors[1 + random.nextInt(6)];
            for (int part = 0; part < parts.length; part++) {
                int size = random.nextInt(60);
                Neighbors rows = rows(new long[size], new long[size], new float[size]);
                for (int i = 0; i < size; i++) {
                    rows.ids()[i] = random.nextInt(80) - 40;
                    rows.versions()[i] = part;
                    rows.distances()[i] = random.nextInt(20) - 10;
                    float[] known = best.get(rows.ids()[i]);
                    if (known == null || known[0] < part) {
                        best.put(rows.ids()[i], new float[] {part, rows.distances()[i]});
                    }
                }
                parts[part] = rows;
            }
            List<Long> expected = new ArrayList<>(best.keySet());
            expected.sort(
                    Comparator.<Long>comparingDouble(id -> best.get(id)[1])
                            .thenComparing(Long::compareUnsigned));
            assertThat(ids(k, parts))
                    .as("seed %d", seed)
                    .isEqualTo(expected.subList(0, Math.min(k, expected.size())));
        }
    }

    @Test
    void ofDistinctRowsTheKNearestAreKept() {
        for (long seed = 0; seed < 200; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int k = 1 + random.nextInt(20);
            List<List<float[]>> held = List.of(new ArrayList<>(), new ArrayList<>());
            List<float[]> all = new ArrayList<>();
            for (int id = 0; id < 100; id++) {
                float[] row = {(float) random.nextDouble() - 0.5f, id, 1};
                held.get(random.nextInt(2)).add(row);
                all.add(row);
            }
            all.sort(Comparator.comparingDouble(row -> row[0]));
            List<Long> nearest = all.subList(0, k).stream().map(row -> (long) row[1]).toList();
            assertThat(ids(k, nearest(held.get(0), k), nearest(held.get(1), k)))
                    .as("seed %d", seed)
                    .isEqualTo(nearest);
        }
    }

    /** Rows that change partition between the moments at which these answer. */
    @Test
    void noRowIsMissingWhileOthersMove() {
        for (long number = 0; number < 2_000; number++) {
            long seed = number;
            SplittableRandom random = new SplittableRandom(seed);
            int count = 2 + random.nextInt(3);
            int rows = 20 + random.nextInt(100);
            int k = 1 + random.nextInt(20);
            List<List<float[]>> held = new ArrayList<>();
            for (int part = 0; part < count; part++) {
                held.add(new ArrayList<>());
            }
            Map<Long, Float> still = new HashMap<>();
            for (int id = 0; id < rows; id++) {
                int first = random.nextInt(count);
                float distance = 10 * first + 10 * (float) random.nextDouble();
                held.get(first).add(new float[] {distance, id, 1});
                if (random.nextInt(3) > 0) {
                    still.put((long) id, distance);
                } else {
                    int second = random.nextInt(count);
                    if (second > first) {
                        float then = 10 * second + 10 * (float) random.nextDouble();
                        held.get(second).add(new float[] {then, id, 2});
                    }
                }
            }
            Neighbors[] parts =
                    held.stream().map(part -> nearest(part, k)).toArray(Neighbors[]::new);
            List<Long> found = ids(k, parts);
            assertThat(found).as("seed %d", seed).doesNotHaveDuplicates();
            final float last =
                    found.size() < k ? Float.POSITIVE_INFINITY : ranking.distance(found.size() - 1);
            still.forEach(
                    (id, distance) -> {
                        if (distance < last) {
                            assertThat(found).as("seed %d", seed).contains(id);
                        }
                    });
        }
    }

    private static Neighbors nearest(List<float[]> rows, int k) {
        rows.sort(Comparator.comparingDouble(row -> row[0]));
        int size = Math.min(k, rows.size());
        Neighbors nearest = rows(new long[size], new long[size], new float[size]);
        for (int i = 0; i < size; i++) {
            float[] row = rows.get(i);
            nearest.distances()[i] = row[0];
            nearest.ids()[i] = (long) row[1];
            nearest.versions()[i] = (long) row[2];
        }
        return nearest;
    }

    private List<Long> ids(int k, Neighbors... parts) {
        List<Long> ids = new ArrayList<>();
        int size = ranking.rank(List.of(parts), k);
        for (int i = 0; i < size; i++) {
            ids.add(ranking.id(i));
        }
        return ids;
    }

    private static Neighbors rows(long[] ids, long[] versions, float[] distances) {
        return new Neighbors(ids, versions, distances);
    }
}
