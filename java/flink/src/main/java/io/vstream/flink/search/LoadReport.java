package io.vstream.flink.search;

import io.vstream.flink.balance.Report;
import io.vstream.flink.metrics.Count;
import io.vstream.nativecore.MovedRanges;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * Tells the control task, now and then, how far the partition is and what its cells cost.
 *
 * <p>Upserts are counted by the engine. Rows are counted by walking over all of them in another
 * thread, at most a hundredth of the time. The cost of a search counts for the cell that the query
 * lies in, in the partition that has this cell; the cost elsewhere for nobody.
 */
final class LoadReport {

    private static final long WALK_SHARE = 100;

    private final Aside aside;
    private final HandOver handOver;
    private final Consumer<Report> control;
    private final SearchSettings settings;
    private final long[] searchNanos = new long[MovedRanges.BUCKETS];
    private byte[] before;
    private Count applied;
    private Count writeNanos;
    private long dueNanos;

    LoadReport(Aside aside, HandOver handOver, Consumer<Report> control, SearchSettings settings) {
        this.aside = aside;
        this.handOver = handOver;
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
        aside.later(settings.reportMillis(), this::report);
    }

    /** Counts the cost of a search, if the query lies in a cell of this partition. */
    void searched(int bucket, long nanos) {
        if (bucket >= 0) {
            searchNanos[bucket] += nanos;
        }
    }

    private void report() {
        if (!settings.loads() || System.nanoTime() - dueNanos < 0) {
            control.accept(handOver.report());
            aside.later(settings.reportMillis(), this::report);
            return;
        }
        aside.aside(this::walk, this::send);
    }

    /** Not in the task's thread. */
    private Walk walk() {
        long began = System.nanoTime();
        byte[] loads = aside.engine().loads();
        return new Walk(loads, System.nanoTime() - began);
    }

    /**
     * What a walk over all rows has found.
     *
     * @param loads of all buckets
     * @param nanos that it took
     */
    private record Walk(byte[] loads, long nanos) {}

    private void send(Walk walk) {
        byte[] loads = walk.loads;
        dueNanos = System.nanoTime() + WALK_SHARE * walk.nanos;
        if (before != null) {
            double each = (double) writeNanos.getCount() / Math.max(1, applied.getCount());
            control.accept(handOver.report().with(loads, before, each, searchNanos));
        } else {
            control.accept(handOver.report());
        }
        Arrays.fill(searchNanos, 0);
        before = loads;
        aside.later(settings.reportMillis(), this::report);
    }
}
