package io.vstream.flink.ingest;

import io.vstream.flink.ingest.BadRecord.Reason;
import java.io.Serializable;

/**
 * The rules of a collection for vectors and queries. Checks only: no arithmetic of the index lives
 * here. Stateless.
 *
 * @param dimension elements of every vector, 1 to 4,096
 * @param cosine true if the metric is cosine, which needs vectors that have a direction
 * @param element how the collection holds a number, which limits the values of stored vectors
 */
public record VectorRules(int dimension, boolean cosine, Element element) implements Serializable {

    /** Largest k of a query. */
    public static final int K_MAX = 1_000;

    /** Largest norm where the metric is not cosine; the engine's limit of the same name. */
    static final double NORM_MAX = 1e15;

    private static final double SQUARES_MAX = NORM_MAX * NORM_MAX;

    /** Under cosine the norm itself must be a number in single precision. */
    private static final float COSINE_NORM_MAX = 3e38f;

    /** Why {@code vector} may not be stored, or null if it may. Two passes at most. */
    public Reason refuseStored(float[] vector) {
        Reason reason = refuseQuery(vector);
        boolean isOfElement = reason == null || reason == Reason.NORM_TOO_LARGE;
        if (!isOfElement || element == Element.F32) {
            return reason;
        }
        for (float value : vector) {
            if (!element.accepts(value)) {
                return Reason.NOT_OF_ELEMENT;
            }
        }
        return reason;
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
        if (!cosine) {
            return squares > SQUARES_MAX ? Reason.NORM_TOO_LARGE : null;
        }
        float norm = (float) Math.sqrt(squares);
        return norm > 0 && norm < COSINE_NORM_MAX ? null : Reason.ZERO_NORM;
    }

    /** Why a query may not ask for {@code k} neighbours with {@code effort}, or null if it may. */
    public static Reason refuseQuery(int k, int effort) {
        if (k < 1 || k > K_MAX) {
            return Reason.BAD_K;
        }
        return effort < -1 ? Reason.BAD_EFFORT : null;
    }
}
