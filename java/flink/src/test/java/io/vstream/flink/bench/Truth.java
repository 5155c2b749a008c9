package io.vstream.flink.bench;

import io.vstream.flink.source.DatasetFile;
import java.util.BitSet;

/** Exact nearest rows under cosine, by looking at all of them. */
final class Truth {

    private static final int K = 10;

    private final float[][] rows;

    Truth(DatasetFile file) {
        rows = new float[file.rows()][file.dimension()];
        for (int row = 0; row < rows.length; row++) {
            file.read(row, rows[row]);
            double square = dot(rows[row], rows[row]);
            float scale = (float) (1 / Math.sqrt(square));
            for (int i = 0; i < rows[row].length; i++) {
                rows[row][i] *= scale;
            }
        }
    }

    /**
     * Share of the true ten nearest that an answer holds.
     *
     * @param live rows that are live; of those that are perhaps, the answer's own count
     */
    double recall(float[] query, long[] answer, WriteLog.Live live) {
        BitSet of = (BitSet) live.certain().clone();
        for (long id : answer) {
            if (live.uncertain().get((int) id)) {
                of.set((int) id);
            }
        }
        float[] best = new float[K];
        int[] nearest = new int[K];
        int found = 0;
        for (int row = of.nextSetBit(0); row >= 0; row = of.nextSetBit(row + 1)) {
            float near = dot(query, rows[row]);
            if (found == K && near <= best[K - 1]) {
                continue;
            }
            int at = found < K ? found++ : K - 1;
            while (at > 0 && best[at - 1] < near) {
                best[at] = best[at - 1];
                nearest[at] = nearest[at - 1];
                at--;
            }
            best[at] = near;
            nearest[at] = row;
        }
        int hits = 0;
        for (int i = 0; i < found; i++) {
            for (long id : answer) {
                hits += id == nearest[i] ? 1 : 0;
            }
        }
        return found == 0 ? 1 : (double) hits / found;
    }

    private static float dot(float[] one, float[] other) {
        float a = 0;
        float b = 0;
        float c = 0;
        float d = 0;
        int i = 0;
        for (; i + 3 < one.length; i += 4) {
            a += one[i] * other[i];
            b += one[i + 1] * other[i + 1];
            c += one[i + 2] * other[i + 2];
            d += one[i + 3] * other[i + 3];
        }
        for (; i < one.length; i++) {
            a += one[i] * other[i];
        }
        return a + b + c + d;
    }
}
