package io.vstream.flink.balance;

import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.MovedRanges;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * What all partitions have reported of their cells. Work is smoothed over some ten reports: a cell
 * sees few queries in a second, and what is noise must move no rows.
 */
final class Loads {

    /** Weight of the last report. */
    private static final double LATEST = 0.1;

    private static final int BUCKET_BYTES = 2 * Double.BYTES;

    private final int[][] rows;
    private final double[][] work;
    private final boolean[] heard;

    /**
     * @param partitions of the job
     */
    Loads(int partitions) {
        rows = new int[partitions][MovedRanges.BUCKETS];
        work = new double[partitions][MovedRanges.BUCKETS];
        heard = new boolean[partitions];
    }

    /** Takes what one partition says. */
    void take(Report report) {
        int partition = report.partition();
        Arrays.fill(rows[partition], 0);
        for (int bucket = 0; bucket < MovedRanges.BUCKETS; bucket++) {
            work[partition][bucket] *= 1 - LATEST;
        }
        for (int i = 0; i < report.buckets().length; i++) {
            int bucket = report.buckets()[i];
            rows[partition][bucket] = report.rows()[i];
            work[partition][bucket] += report.micros()[i] * LATEST;
        }
        heard[partition] = true;
    }

    /** True if every partition has spoken since {@link #forget}. */
    boolean complete() {
        for (boolean one : heard) {
            if (!one) {
                return false;
            }
        }
        return true;
    }

    /** Waits for every partition to speak again, since rows have moved. */
    void forget() {
        Arrays.fill(heard, false);
    }

    /** Rows in all. */
    long rows() {
        return Arrays.stream(rows).flatMapToInt(Arrays::stream).asLongStream().sum();
    }

    /** Rows and work by bucket, for {@link io.vstream.nativecore.NativeRouter#rebalance}. */
    ByteBuffer sum() {
        ByteBuffer sum = BufferLayout.allocate(MovedRanges.BUCKETS * BUCKET_BYTES);
        for (int bucket = 0; bucket < MovedRanges.BUCKETS; bucket++) {
            double held = 0;
            double cost = 0;
            for (int partition = 0; partition < rows.length; partition++) {
                held += rows[partition][bucket];
                cost += work[partition][bucket];
            }
            sum.putDouble(bucket * BUCKET_BYTES, held);
            sum.putDouble(bucket * BUCKET_BYTES + Double.BYTES, cost);
        }
        return sum;
    }
}
