package io.vstream.flink.handover;

import java.io.Serializable;

/**
 * A slice of a partition's sample of its live rows.
 *
 * @param share of its rows that the sample holds
 * @param slice number, below {@link #SLICES}
 * @param rows as {@link io.vstream.nativecore.NativeEngine#sample} gives them
 */
public record SampleSlice(double share, int slice, byte[] rows) implements Serializable {

    /** Slices of a sample; a report carries one, so that it stays small. */
    public static final int SLICES = 4;

    private static final long serialVersionUID = 1L;

    /** Rows in the samples of all partitions together: enough for 1,024 cells. */
    private static final int ROWS_MAX = 8_192;

    /**
     * Bytes of these rows: with slices and partitions a report is far below 10 MB, Flink's limit.
     */
    private static final int BYTES_MAX = 32 << 20;

    /**
     * The share that a partition draws.
     *
     * @param live its rows
     * @param dimension elements of a vector
     * @param partitions of the job
     */
    public static double share(long live, int dimension, int partitions) {
        int rowsMax = Math.min(ROWS_MAX, BYTES_MAX / (dimension * Float.BYTES));
        return Math.min(1, (double) rowsMax / partitions / Math.max(1, live));
    }
}
