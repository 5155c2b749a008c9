package io.vstream.flink.control;

import io.vstream.flink.handover.PartitionReport;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.MovedRanges;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The loads of all cells, as partitions have reported them. Work is smoothed over some ten reports:
 * a cell sees few queries in a second, and noise must move no rows. A cell that grows counts as
 * what it will hold soon, since the rows of a plan arrive some seconds after the look at the loads.
 */
final class CellLoads {

    /** Weight of the last report. */
    private static final double LATEST = 0.1;

    /** Growth is looked ahead so far: about the time from a look to the end of a hand-over. */
    private static final double AHEAD_SECONDS = 3;

    /** Weight of the last look at growth. */
    private static final double LATEST_GROWTH = 0.5;

    private static final double NANOS = 1e9;

    private static final int BUCKET_BYTES = 2 * Double.BYTES;

    private final int[][] rows;
    private final double[][] work;
    private final boolean[] heard;
    private final double[] growth;
    private long[] atLesson;
    private long[] atLook;
    private long lookNanos;

    /**
     * @param partitions of the job
     */
    CellLoads(int partitions) {
        rows = new int[partitions][MovedRanges.BUCKETS];
        work = new double[partitions][MovedRanges.BUCKETS];
        heard = new boolean[partitions];
        growth = new double[MovedRanges.BUCKETS];
    }

    /** Takes the report of one partition. */
    void take(PartitionReport report) {
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

    /** True if every partition has reported since {@link #forget}. */
    boolean complete() {
        for (boolean one : heard) {
            if (!one) {
                return false;
            }
        }
        return true;
    }

    /** Waits for new reports of all partitions, since rows have moved. */
    void forget() {
        Arrays.fill(heard, false);
    }

    /**
     * Sees how fast buckets grow; to be called when every partition has reported, so that each row
     * counts once.
     *
     * @param nanos now
     */
    void look(long nanos) {
        long[] now = byBucket();
        double seconds = (nanos - lookNanos) / NANOS;
        for (int bucket = 0; atLook != null && seconds > 0 && bucket < now.length; bucket++) {
            double rate = Math.max(0, now[bucket] - atLook[bucket]) / seconds;
            growth[bucket] += (rate - growth[bucket]) * LATEST_GROWTH;
        }
        atLook = now;
        lookNanos = nanos;
    }

    /** Notes that the template was learned from the rows as they are. */
    void learned() {
        atLesson = byBucket();
    }

    /** Share of the rows that came or went since {@link #learned}; 1 if it never was. */
    double changed() {
        if (atLesson == null) {
            return 1;
        }
        long[] now = byBucket();
        long changed = 0;
        for (int bucket = 0; bucket < now.length; bucket++) {
            changed += Math.abs(now[bucket] - atLesson[bucket]);
        }
        return (double) changed / Math.max(1, rows());
    }

    private long[] byBucket() {
        long[] sums = new long[MovedRanges.BUCKETS];
        for (int[] held : rows) {
            for (int bucket = 0; bucket < sums.length; bucket++) {
                sums[bucket] += held[bucket];
            }
        }
        return sums;
    }

    /** Rows in all. */
    long rows() {
        return Arrays.stream(rows).flatMapToInt(Arrays::stream).asLongStream().sum();
    }

    /**
     * Rows, as they soon will be, and work by bucket, for {@link
     * io.vstream.nativecore.NativeRouter#rebalance}.
     */
    ByteBuffer sum() {
        ByteBuffer sum = BufferLayout.allocate(MovedRanges.BUCKETS * BUCKET_BYTES);
        for (int bucket = 0; bucket < MovedRanges.BUCKETS; bucket++) {
            double held = growth[bucket] * AHEAD_SECONDS;
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
