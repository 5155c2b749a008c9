package io.vstream.flink.metrics;

import org.apache.flink.metrics.Gauge;

/** A fraction that a task thread sets and any thread reads; not a number until it is known. */
public final class Ratio implements Gauge<Double> {

    private volatile double value = Double.NaN;

    Ratio() {}

    /** Replaces the fraction. */
    public void set(double to) {
        value = to;
    }

    @Override
    public Double getValue() {
        return value;
    }
}
