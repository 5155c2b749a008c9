package io.vstream.flink.metrics;

import java.time.Instant;

/**
 * Nanoseconds since 1970 that never run backwards within a process: the wall clock, read once, plus
 * the monotonic one.
 */
public final class EpochClock {

    private static final long OFFSET_NANOS = offset();

    private EpochClock() {}

    /** Now. Cost: one {@link System#nanoTime}. */
    public static long nanos() {
        return System.nanoTime() + OFFSET_NANOS;
    }

    private static long offset() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano() - System.nanoTime();
    }
}
