package io.vstream.flink.place;

import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.operators.InternalTimerService;

/**
 * Ends rows: keeps one timer in event time for each. All methods are about the current key.
 *
 * <p>A row that is written again gets another time, and one that is deleted none; a timer of an
 * earlier time is taken back, so that there is one per row, some hundred bytes of heap.
 */
final class Expiry {

    private final long lifeMillis;
    private final ValueState<Long> end;
    private final InternalTimerService<VoidNamespace> timers;
    private final long restored;

    /**
     * @param lifeMillis how long a row lives, 1 or more
     * @param end keyed state: when the row's life ends
     * @param restored watermark that all subtasks of the checkpoint had reached
     */
    Expiry(
            long lifeMillis,
            ValueState<Long> end,
            InternalTimerService<VoidNamespace> timers,
            long restored) {
        this.lifeMillis = lifeMillis;
        this.end = end;
        this.timers = timers;
        this.restored = restored;
    }

    /** The watermark that this attempt or the restored checkpoint has reached. */
    long watermark() {
        return Math.max(timers.currentWatermark(), restored);
    }

    /** True if a row of that event time is over before it is written. */
    boolean over(long timestamp) {
        return endOf(timestamp) <= watermark();
    }

    /** The row was written with that event time. */
    void begin(long timestamp) throws Exception {
        long now = endOf(timestamp);
        Long before = end.value();
        if (before == null || before != now) {
            cancel();
            timers.registerEventTimeTimer(VoidNamespace.INSTANCE, now);
            end.update(now);
        }
    }

    /** The row is no more. */
    void cancel() throws Exception {
        Long before = end.value();
        if (before != null) {
            timers.deleteEventTimeTimer(VoidNamespace.INSTANCE, before);
            end.clear();
        }
    }

    private long endOf(long timestamp) {
        long sum = timestamp + lifeMillis;
        return sum < timestamp ? Long.MAX_VALUE : sum;
    }
}
