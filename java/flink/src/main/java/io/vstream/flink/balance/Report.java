package io.vstream.flink.balance;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/**
 * What a partition tells the control task: how far it is in a hand-over, and what its cells cost.
 * It is repeated, and it is sent as a question: one that is lost does no harm. A lost event would
 * fail the task.
 *
 * @param partition that speaks
 * @param partitions in all, in this attempt of the job
 * @param run in which it got its commands; 0 before the first
 * @param position whose work it has done, see {@link Mark#position}
 * @param buckets that hold rows or cost time, ascending; null if loads were not looked at
 * @param rows of each of these buckets
 * @param micros of work in each since the last report with loads
 * @param drawn some of its rows; null if none were drawn
 */
public record Report(
        int partition,
        int partitions,
        long run,
        long position,
        short[] buckets,
        int[] rows,
        int[] micros,
        Drawn drawn)
        implements CoordinationRequest {

    private static final long serialVersionUID = 1L;
    private static final int LOAD_BYTES = 8;
    private static final int WRITES = 4;
    private static final long NANOS_PER_MICRO = 1_000;

    /** A report without loads. */
    public static Report of(int partition, int partitions, long run, long position) {
        return new Report(partition, partitions, run, position, null, null, null, null);
    }

    /**
     * The same report with loads.
     *
     * @param loads rows and upserts of every bucket, as the engine gives them
     * @param before the same at the last report
     * @param writeNanos that an upsert costs
     * @param searchNanos of searches by bucket since the last report
     * @param otherNanos of searches for queries of no bucket here: they cost each row the same
     * @param some rows, or null
     */
    public Report with(
            byte[] loads,
            byte[] before,
            double writeNanos,
            long[] searchNanos,
            long otherNanos,
            Drawn some) {
        ByteBuffer now = ByteBuffer.wrap(loads).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer old = ByteBuffer.wrap(before).order(ByteOrder.LITTLE_ENDIAN);
        short[] used = new short[searchNanos.length];
        int[] held = new int[searchNanos.length];
        int[] cost = new int[searchNanos.length];
        long live = 0;
        for (int at = 0; at < loads.length; at += LOAD_BYTES) {
            live += now.getInt(at);
        }
        double each = (double) otherNanos / Math.max(1, live);
        int count = 0;
        for (int bucket = 0; bucket < searchNanos.length; bucket++) {
            int at = bucket * LOAD_BYTES;
            int writes = now.getInt(at + WRITES) - old.getInt(at + WRITES);
            double nanos = writes * writeNanos + searchNanos[bucket] + each * now.getInt(at);
            used[count] = (short) bucket;
            held[count] = now.getInt(at);
            cost[count] = (int) Math.min(Integer.MAX_VALUE, Math.round(nanos / NANOS_PER_MICRO));
            count += held[count] != 0 || cost[count] != 0 ? 1 : 0;
        }
        return new Report(
                partition,
                partitions,
                run,
                position,
                Arrays.copyOf(used, count),
                Arrays.copyOf(held, count),
                Arrays.copyOf(cost, count),
                some);
    }

    /** The same report less its loads. */
    Report bare() {
        return of(partition, partitions, run, position);
    }

    /** This report, with the loads of an earlier one if no step has ended in between. */
    Report after(Report earlier) {
        boolean keep =
                earlier != null
                        && !hasLoads()
                        && earlier.hasLoads()
                        && earlier.run == run
                        && earlier.position == position;
        return keep ? earlier : this;
    }

    /** True if it says what cells cost. */
    boolean hasLoads() {
        return buckets != null;
    }
}
