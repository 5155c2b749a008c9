package io.vstream.flink.merge;

import java.util.Arrays;

/** Numbers of queries in the order in which they were added, each with a time. A ring of longs. */
final class Deadlines {

    private long[] numbers = new long[1024];
    private long[] ticks = new long[1024];
    private int head;
    private int size;

    /**
     * Adds a query; times may run a little out of order, then a query only waits for the others.
     */
    void add(long number, long atTick) {
        if (size == numbers.length) {
            grow();
        }
        int end = head + size & numbers.length - 1;
        numbers[end] = number;
        ticks[end] = atTick;
        size++;
    }

    /** True if the first query's time has come. */
    boolean due(long nowTick) {
        return size > 0 && ticks[head] <= nowTick;
    }

    /** Takes the first query. */
    long take() {
        long number = numbers[head];
        head = head + 1 & numbers.length - 1;
        size--;
        return number;
    }

    private void grow() {
        int old = numbers.length;
        numbers = unrolled(numbers, old);
        ticks = unrolled(ticks, old);
        head = 0;
    }

    private long[] unrolled(long[] ring, int old) {
        long[] next = Arrays.copyOfRange(ring, head, head + old * 2);
        System.arraycopy(ring, 0, next, old - head, head);
        return next;
    }
}
