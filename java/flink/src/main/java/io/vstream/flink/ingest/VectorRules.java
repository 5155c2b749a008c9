package io.vstream.flink.ingest;

import io.vstream.flink.ingest.BadRecord.Reason;
import java.io.Serializable;

/**
 * What a collection accepts. Checks only: no arithmetic of the index lives here. Stateless.
 *
 * @param dimension elements of every vector, 1 to 4,096
 * @param cosine true if the metric is cosine, which needs vectors that have a direction
 * @param element how the collection holds a number, which limits the values of stored vectors
 */
public record VectorRules(int dimension, boolean cosine, Element element) implements Serializable {

    /** Largest k of a query. */
    public static final int K_MAX = 1_000;

    private static final float NORM_MAX = 3e38f;

    /** Why {@code vector} may not be stored, or null if it may. Two passes at most. */
    public Reason refuseStored(float[] vector) {
        Reason reason = refuseQuery(vector);
        if (reason != null || element == Element.F32) {
            return reason;
        }
        for (float value : vector) {
            if (!element.accepts(value)) {
                return Reason.NOT_OF_ELEMENT;
            }
        }
        return null;
    }

    /** Why {@code vector} may not be a query, or null if it may. One pass. */
    public Reason refuseQuery(float[] vector) {
        if (vector.length != dimension) {
            return Reason.WRONG_DIMENSION;
        }
        double squares = 0;
        for (float value : vector) {
            squares += (double) value * value;
        }
        // A sum of squares in double precision is finite exactly if every float is.
        if (!Double.isFinite(squares)) {
            return Reason.NOT_FINITE;
        }
        // The norm must be a number in single precision, in which the engine divides by it.
        float norm = (float) Math.sqrt(squares);
        return cosine && !(norm > 0 && norm < NORM_MAX) ? Reason.ZERO_NORM : null;
    }

    /** Why a query may not ask for {@code k} neighbours with {@code effort}, or null if it may. */
    public static Reason refuseQuery(int k, int effort) {
        if (k < 1 || k > K_MAX) {
            return Reason.BAD_K;
        }
        return effort < -1 ? Reason.BAD_EFFORT : null;
    }
}
