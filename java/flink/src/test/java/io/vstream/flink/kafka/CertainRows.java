package io.vstream.flink.kafka;

import java.util.Arrays;
import java.util.function.IntPredicate;

/** The rows that an answer with a given frontier must know, searched by brute force. */
final class CertainRows {

    /** Numbers after which a row that is too far already is given up. */
    private static final int STRIDE = 16;

    private final int dimension;
    private final long lifeMillis;
    private final Writes log;
    private final float[] vectors;

    CertainRows(Shape shape, Writes log) {
        this.log = log;
        dimension = shape.dimension();
        lifeMillis = shape.lifeMillis();
        vectors = new float[shape.ids() * dimension];
    }

    /** What is done with a row. */
    interface Visit {
        void row(int id, double distance);
    }

    /** Notes the last vector of an id, or null for a delete. */
    void write(int id, float[] vector) {
        if (vector != null) {
            System.arraycopy(vector, 0, vectors, id * dimension, dimension);
        }
    }

    /** Shows every row that is nearer than {@code bound}, of those whose last write passes. */
    void nearer(long[] frontier, float[] vector, double bound, IntPredicate writes, Visit visit) {
        for (int id = 0; id * dimension < vectors.length; id++) {
            if (lives(id, frontier) && writes.test(log.last(id))) {
                double distance = distance(id, vector, bound);
                if (distance < bound) {
                    visit.row(id, distance);
                }
            }
        }
    }

    /**
     * Distances of the {@code k} nearest rows whose last write passes, or of all if there are
     * fewer, ascending.
     */
    double[] nearest(long[] frontier, float[] vector, int k, IntPredicate writes) {
        double[] best = new double[k];
        Arrays.fill(best, Double.POSITIVE_INFINITY);
        int[] rows = new int[1];
        for (int id = 0; id * dimension < vectors.length; id++) {
            if (!lives(id, frontier) || !writes.test(log.last(id))) {
                continue;
            }
            rows[0]++;
            double distance = distance(id, vector, best[k - 1]);
            int at = k - 1;
            if (distance >= best[at]) {
                continue;
            }
            for (; at > 0 && best[at - 1] > distance; at--) {
                best[at] = best[at - 1];
            }
            best[at] = distance;
        }
        return Arrays.copyOf(best, Math.min(k, rows[0]));
    }

    /** How many there are. */
    int count(long[] frontier) {
        int count = 0;
        for (int id = 0; id * dimension < vectors.length; id++) {
            count += lives(id, frontier) ? 1 : 0;
        }
        return count;
    }

    private boolean lives(int id, long[] frontier) {
        return log.isSettled(id, frontier)
                && (lifeMillis == 0 || log.time(log.last(id)) + lifeMillis > log.latest());
    }

    /** The distance of a row, or a smaller number above {@code bound}. */
    private double distance(int id, float[] vector, double bound) {
        double sum = 0;
        for (int from = 0; from < dimension && sum <= bound; from += STRIDE) {
            int end = Math.min(dimension, from + STRIDE);
            float part = 0;
            for (int i = from, row = id * dimension + from; i < end; i++, row++) {
                float difference = vector[i] - vectors[row];
                part += difference * difference;
            }
            sum += part;
        }
        return sum;
    }

    /** The squared distance of two vectors. */
    static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            double difference = (double) a[i] - b[i];
            sum += difference * difference;
        }
        return sum;
    }
}
