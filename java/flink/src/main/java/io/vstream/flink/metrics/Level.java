package io.vstream.flink.metrics;

import org.apache.flink.metrics.Gauge;

/** A number that a task thread sets and any thread reads. */
public final class Level implements Gauge<Long> {

    private volatile long value;

    /**
     * @param initial what it shows before the first {@link #set}
     */
    Level(long initial) {
        value = initial;
    }

    /** Replaces the number. */
    public void set(long to) {
        value = to;
    }

    @Override
    public Long getValue() {
        return value;
    }
}
