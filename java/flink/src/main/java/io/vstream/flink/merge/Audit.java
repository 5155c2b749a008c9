package io.vstream.flink.merge;

import io.vstream.flink.search.Neighbors;
import java.util.List;

/**
 * Compares a query's usual answer with its exact one, both at the same position of the stream.
 *
 * @param found share of the true neighbours that the usual answer found; a tie counts
 * @param lost share that lies in partitions which were not asked
 */
record Audit(double found, double lost) {

    /** Equal to the k-th distance within rounding: as good an answer. */
    private static final float TIE = 1e-5f;

    /**
     * @param usual rows by partition; none where it was not asked
     * @param exact rows by partition, in the same order
     * @param answer for use here
     * @param truth for use here
     */
    static Audit of(
            List<Neighbors> usual, List<Neighbors> exact, int k, Ranking answer, Ranking truth) {
        int size = truth.rank(exact, k);
        if (size == 0) {
            return new Audit(1, 0);
        }
        float farthest = truth.distance(size - 1);
        float limit = farthest + TIE * Math.max(1, Math.abs(farthest));
        int given = answer.rank(usual, k);
        int found = 0;
        for (int i = 0; i < Math.min(given, size); i++) {
            found += answer.distance(i) <= limit ? 1 : 0;
        }
        int lost = 0;
        for (int i = 0; i < size; i++) {
            // A partition that was asked gives at least one row if it has any.
            lost += usual.get(truth.origin(i)).size() == 0 ? 1 : 0;
        }
        return new Audit((double) found / size, (double) lost / size);
    }

    /** Share that partitions hold which were asked and did not find it. */
    double missed() {
        return Math.max(0, 1 - found - lost);
    }
}
