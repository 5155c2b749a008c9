package io.vstream.flink.handover;

import io.vstream.nativecore.MovedRanges;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/**
 * A partition's report to the control task: its progress in a hand-over and the costs of its cells.
 * It is sent as a request and repeated, so that a lost one does no harm. A lost event would fail
 * the task.
 *
 * @param partition that reports
 * @param partitions in all, in this attempt of the job
 * @param run in which it got its commands; 0 before the first
 * @param position whose work it has done, see {@link CommandAck#position}
 * @param buckets that hold rows or cost time, ascending; null if loads were not looked at
 * @param rows of each of these buckets
 * @param micros of work in each since the last report with loads
 * @param drawn some of its rows; null if none were drawn
 */
public record PartitionReport(
        int partition,
        int partitions,
        long run,
        long position,
        short[] buckets,
        int[] rows,
        int[] micros,
        SampleSlice drawn)
        implements CoordinationRequest {

    private static final long serialVersionUID = 1L;
    private static final int LOAD_BYTES = 8;
    private static final int WRITES = 4;
    private static final long NANOS_PER_MICRO = 1_000;

    /** A report without loads. */
    public static PartitionReport of(int partition, int partitions, long run, long position) {
        return new PartitionReport(partition, partitions, run, position, null, null, null, null);
    }

    /**
     * The same report with loads.
     *
     * @param loads rows and upserts of every bucket, as the engine gives them
     * @param before the same at the last report
     * @param writeNanos that an upsert costs
     * @param searchNanos of searches by bucket since the last report
     * @param otherNanos of searches for queries of no bucket here: they cost each row the same
     * @param rowSample some rows, or null
     */
    public PartitionReport with(
            byte[] loads,
            byte[] before,
            double writeNanos,
            long[] searchNanos,
            long otherNanos,
            SampleSlice rowSample) {
        ByteBuffer now = ByteBuffer.wrap(loads).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer old = ByteBuffer.wrap(before).order(ByteOrder.LITTLE_ENDIAN);
        int[] held = new int[searchNanos.length];
        int[] cost = new int[searchNanos.length];
        long live = 0;
        for (int offset = 0; offset < loads.length; offset += LOAD_BYTES) {
            live += now.getInt(offset);
        }
        double each = (double) otherNanos / Math.max(1, live);
        for (int bucket = 0; bucket < searchNanos.length; bucket++) {
            int offset = bucket * LOAD_BYTES;
            int writes = now.getInt(offset + WRITES) - old.getInt(offset + WRITES);
            double nanos = writes * writeNanos + searchNanos[bucket] + each * now.getInt(offset);
            held[bucket] = now.getInt(offset);
            cost[bucket] = (int) Math.min(Integer.MAX_VALUE, Math.round(nanos / NANOS_PER_MICRO));
        }
        return with(held, cost, rowSample);
    }

    /** The same report with rows and costs of every bucket, of which it keeps those that are. */
    private PartitionReport with(int[] held, int[] cost, SampleSlice rowSample) {
        short[] used = new short[held.length];
        int[] usedRows = new int[held.length];
        int[] usedMicros = new int[held.length];
        int count = 0;
        for (int bucket = 0; bucket < held.length; bucket++) {
            if (held[bucket] != 0 || cost[bucket] != 0) {
                used[count] = (short) bucket;
                usedRows[count] = held[bucket];
                usedMicros[count] = cost[bucket];
                count++;
            }
        }
        return new PartitionReport(
                partition,
                partitions,
                run,
                position,
                Arrays.copyOf(used, count),
                Arrays.copyOf(usedRows, count),
                Arrays.copyOf(usedMicros, count),
                rowSample);
    }

    /** The same report less its loads. */
    public PartitionReport bare() {
        return of(partition, partitions, run, position);
    }

    /**
     * This report, with the loads of an earlier one that nobody has heard of, if no step has ended
     * in between.
     */
    public PartitionReport after(PartitionReport earlier) {
        boolean keep =
                earlier != null
                        && earlier.hasLoads()
                        && earlier.run == run
                        && earlier.position == position;
        if (!keep) {
            return this;
        }
        return hasLoads() ? plus(earlier) : earlier;
    }

    private PartitionReport plus(PartitionReport earlier) {
        int[] held = new int[MovedRanges.BUCKETS];
        int[] cost = new int[MovedRanges.BUCKETS];
        for (int i = 0; i < earlier.buckets.length; i++) {
            cost[earlier.buckets[i]] = earlier.micros[i];
        }
        for (int i = 0; i < buckets.length; i++) {
            int bucket = buckets[i];
            held[bucket] = rows[i];
            cost[bucket] = (int) Math.min(Integer.MAX_VALUE, (long) cost[bucket] + micros[i]);
        }
        return with(held, cost, drawn == null ? earlier.drawn : drawn);
    }

    /** True if it says what cells cost. */
    public boolean hasLoads() {
        return buckets != null;
    }
}
