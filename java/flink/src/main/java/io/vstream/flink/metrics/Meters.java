package io.vstream.flink.metrics;

import org.apache.flink.metrics.MetricGroup;

/** Registers an operator's metrics in the group {@link Names#GROUP}. */
public final class Meters {

    private final MetricGroup group;

    /**
     * @param operator metric group of the operator
     */
    public Meters(MetricGroup operator) {
        this.group = operator.addGroup(Names.GROUP);
    }

    /** A number that grows. */
    public Count count(String name) {
        return group.counter(name, new Count());
    }

    /** A number that moves, at first 0. */
    public Level level(String name) {
        return level(name, 0);
    }

    /** A number that moves. */
    public Level level(String name, long initial) {
        return group.gauge(name, new Level(initial));
    }

    /** A fraction. */
    public Ratio ratio(String name) {
        return group.gauge(name, new Ratio());
    }

    /** Bytes in one of the places where rows lie. */
    public Level tierBytes(String tier) {
        return group.addGroup(Names.TIER, tier).gauge(Names.TIER_BYTES, new Level(0));
    }

    /** Mean time of rows in one of the places where they lie. */
    public Level tierResidence(String tier) {
        return group.addGroup(Names.TIER, tier).gauge(Names.TIER_RESIDENCE, new Level(-1));
    }

    /** A text. */
    public Text text(String name) {
        return group.gauge(name, new Text());
    }

    /** A latency. */
    public Latency latency(String name) {
        return group.histogram(name, new Latency());
    }
}
