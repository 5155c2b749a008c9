package io.vstream.flink.metrics;

import org.apache.flink.metrics.Gauge;

/** A text that a task thread replaces now and then and any thread reads. */
public final class Text implements Gauge<String> {

    private volatile String value = "";

    /** Replaces the text. */
    public void set(String to) {
        value = to;
    }

    @Override
    public String getValue() {
        return value;
    }
}
