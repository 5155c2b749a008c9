package io.vstream.flink.search;

import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.SampleSlice;
import io.vstream.flink.handover.Step;
import io.vstream.flink.metrics.Count;
import io.vstream.nativecore.MovedRanges;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.function.Predicate;

/**
 * Reports the progress of the partition and the costs of its cells to the control task. Where costs
 * do not matter, it reports during hand-overs alone.
 *
 * <p>Upserts are counted by the engine. Rows are counted by walking over all of them in another
 * thread, at most a hundredth of the time. The cost of a search counts for the cell that the query
 * lies in, in the partition that has this cell; elsewhere it counts for all rows alike. With the
 * counts goes a slice of a sample of the rows.
 */
final class LoadReporter {

    private static final long WALK_SHARE = 100;

    /** Rows and upserts of a bucket. */
    private static final int LOAD_BYTES = 8;

    private final HandoverParticipant.Host host;
    private final HandoverParticipant handover;
    private final Predicate<PartitionReport> control;
    private final PartitionSettings settings;
    private final long[] searchNanos = new long[MovedRanges.BUCKETS];
    private final int partitions;
    private long otherNanos;
    private byte[] before;
    private long live;
    private int slice;
    private Count applied;
    private Count writeNanos;
    private long dueNanos;
    private long drawDueNanos;

    /**
     * @param control hears the reports, or says that it does not
     * @param partitions of the job
     */
    LoadReporter(
            HandoverParticipant.Host host,
            HandoverParticipant handover,
            Predicate<PartitionReport> control,
            PartitionSettings settings,
            int partitions) {
        this.partitions = partitions;
        this.host = host;
        this.handover = handover;
        this.control = control;
        this.settings = settings;
    }

    /**
     * Begins to report.
     *
     * @param writes applied so far
     * @param nanos that they have cost
     */
    void begin(Count writes, Count nanos) {
        applied = writes;
        writeNanos = nanos;
        dueNanos = System.nanoTime();
        drawDueNanos = dueNanos;
        host.schedule(settings.reportMillis(), this::report);
    }

    /** Counts the cost of a search; {@code bucket} is negative if the query lies elsewhere. */
    void searched(int bucket, long nanos) {
        if (bucket >= 0) {
            searchNanos[bucket] += nanos;
        } else {
            otherNanos += nanos;
        }
    }

    private void report() {
        if (!settings.loads() || System.nanoTime() - dueNanos < 0) {
            if (settings.loads() || !handover.resting()) {
                control.test(handover.report());
            }
            host.schedule(settings.reportMillis(), this::report);
            return;
        }
        // Before the first template codes say nothing.
        long position = handover.report().position();
        boolean placed = position >= CommandAck.position(1, Step.DONE);
        boolean due = placed && System.nanoTime() - drawDueNanos >= 0;
        double share = due ? SampleSlice.share(live, settings.dimension(), partitions) : 0;
        int number = slice;
        host.executeAsync(() -> walk(share, number), walk -> send(walk, position));
    }

    /** Not in the task's thread. */
    private Walk walk(double share, int number) {
        long began = System.nanoTime();
        byte[] loads = host.engine().loads();
        long counted = System.nanoTime();
        SampleSlice drawn = null;
        if (share > 0) {
            byte[] rows = host.engine().sample(share, number, SampleSlice.SLICES);
            drawn = new SampleSlice(share, number, rows);
        }
        return new Walk(loads, counted - began, drawn, System.nanoTime() - counted);
    }

    /**
     * The result of a walk over all rows.
     *
     * @param loads of all buckets
     * @param countNanos that these took
     * @param drawn some rows, or null
     * @param drawNanos that these took
     */
    private record Walk(byte[] loads, long countNanos, SampleSlice drawn, long drawNanos) {}

    private void send(Walk walk, long position) {
        if (handover.report().position() != position) {
            // Rows came or went meanwhile: those that were counted here may count elsewhere too.
            report();
            return;
        }
        byte[] loads = walk.loads;
        dueNanos = System.nanoTime() + WALK_SHARE * walk.countNanos;
        if (walk.drawn != null) {
            drawDueNanos = System.nanoTime() + WALK_SHARE * walk.drawNanos;
        }
        PartitionReport report = handover.report();
        if (before != null) {
            double each = (double) writeNanos.getCount() / Math.max(1, applied.getCount());
            report = report.with(loads, before, each, searchNanos, otherNanos, walk.drawn);
        }
        // Costs that were not told are counted on, and told with the next report.
        if (control.test(report) || before == null) {
            Arrays.fill(searchNanos, 0);
            otherNanos = 0;
            before = loads;
            slice = (slice + (walk.drawn == null ? 0 : 1)) % SampleSlice.SLICES;
        }
        live = rows(loads);
        host.schedule(settings.reportMillis(), this::report);
    }

    private static long rows(byte[] loads) {
        ByteBuffer buckets = ByteBuffer.wrap(loads).order(ByteOrder.LITTLE_ENDIAN);
        long rows = 0;
        for (int offset = 0; offset < loads.length; offset += LOAD_BYTES) {
            rows += buckets.getInt(offset);
        }
        return rows;
    }
}
