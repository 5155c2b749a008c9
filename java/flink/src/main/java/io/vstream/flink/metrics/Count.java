package io.vstream.flink.metrics;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.apache.flink.metrics.Counter;

/**
 * A number that one task thread writes and any thread reads. It only grows, or starts where a
 * checkpoint left it.
 *
 * <p>Release on write and acquire on read: who sees a count sees everything that was done before
 * it, which the quiet check of the job runner relies on.
 */
public final class Count implements Counter {

    private static final VarHandle VALUE;

    static {
        try {
            VALUE = MethodHandles.lookup().findVarHandle(Count.class, "value", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private long value;

    @Override
    public void inc() {
        inc(1);
    }

    @Override
    public void inc(long by) {
        VALUE.setRelease(this, value + by);
    }

    @Override
    public void dec() {
        inc(-1);
    }

    @Override
    public void dec(long by) {
        inc(-by);
    }

    @Override
    public long getCount() {
        return (long) VALUE.getAcquire(this);
    }
}
