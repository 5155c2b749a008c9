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
        ranking.clear();
        ranking.add(rows(new long[] {1, 2}, new long[] {5, 1}, new float[] {0.1f, 0.2f}));
        ranking.add(rows(new long[] {1}, new long[] {6}, new float[] {0.9f}));
        assertThat(ids(10)).containsExactly(2L, 1L);
        assertThat(ranking.distance(1)).isEqualTo(0.9f);
    }

    @Test
    void breaksTiesByUnsignedId() {
        ranking.clear();
        ranking.add(rows(new long[] {-1, 9, 0}, new long[3], new float[] {1, 1, 1}));
        assertThat(ids(10)).containsExactly(0L, 9L, -1L);
    }

    @Test
    void sortsNegativeDistances() {
        ranking.clear();
        ranking.add(rows(new long[] {1, 2, 3}, new long[3], new float[] {-1, -3, 2}));
        assertThat(ids(2)).containsExactly(2L, 1L);
    }

    @Test
    void equalsASortOfEverything() {
        for (long seed = 0; seed < 200; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int k = 1 + random.nextInt(50);
            Map<Long, float[]> best = new HashMap<>();
            ranking.clear();
            for (int part = 0; part < 1 + random.nextInt(6); part++) {
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
                ranking.add(rows);
            }
            List<Long> expected = new ArrayList<>(best.keySet());
            expected.sort(
                    Comparator.<Long>comparingDouble(id -> best.get(id)[1])
                            .thenComparing(Long::compareUnsigned));
            assertThat(ids(k))
                    .as("seed %d", seed)
                    .isEqualTo(expected.subList(0, Math.min(k, expected.size())));
        }
    }

    private List<Long> ids(int k) {
        List<Long> ids = new ArrayList<>();
        int size = ranking.rank(k);
        for (int i = 0; i < size; i++) {
            ids.add(ranking.id(i));
        }
        return ids;
    }

    private static Neighbors rows(long[] ids, long[] versions, float[] distances) {
        return new Neighbors(ids, versions, distances);
    }
}
