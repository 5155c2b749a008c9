package io.vstream.flink.kafka;

import java.util.Arrays;

/** Every write so far, in some 25 bytes each. An id always goes to one partition. */
final class Writes {

    private static final int NONE = -1;

    private final int partitions;
    private final int[] last;
    private int[] before = new int[1 << 16];
    private int[] offsets = new int[1 << 16];
    private long[] times = new long[1 << 16];
    private boolean[] deletes = new boolean[1 << 16];
    private int[] vectors = new int[1 << 16];
    private int size;
    private long latest = Long.MIN_VALUE;

    Writes(int ids, int partitions) {
        this.partitions = partitions;
        last = new int[ids];
        Arrays.fill(last, NONE);
    }

    /** Notes an upsert or a delete. */
    void add(int id, boolean delete, int offset, long time) {
        add(id, delete, size, offset, time);
    }

    /** Notes an update, which leaves the vector of the row as it is. */
    void update(int id, int offset, long time) {
        add(id, false, vectors[last[id]], offset, time);
    }

    private void add(int id, boolean delete, int vector, int offset, long time) {
        if (size == before.length) {
            before = Arrays.copyOf(before, 2 * size);
            offsets = Arrays.copyOf(offsets, 2 * size);
            times = Arrays.copyOf(times, 2 * size);
            deletes = Arrays.copyOf(deletes, 2 * size);
            vectors = Arrays.copyOf(vectors, 2 * size);
        }
        before[size] = last[id];
        offsets[size] = offset;
        times[size] = time;
        deletes[size] = delete;
        vectors[size] = vector;
        last[id] = size++;
        latest = Math.max(latest, time);
    }

    int size() {
        return size;
    }

    /** Number of the last write of an id, or a negative number. */
    int last(int id) {
        return last[id];
    }

    /** Number of the write of the same id before, or a negative number. */
    int before(int number) {
        return before[number];
    }

    int offset(int number) {
        return offsets[number];
    }

    long time(int number) {
        return times[number];
    }

    boolean isDelete(int number) {
        return deletes[number];
    }

    /** Number of the write whose vector the row has after a write. */
    int vector(int number) {
        return vectors[number];
    }

    /** Newest time of all writes: no watermark is later. */
    long latest() {
        return latest;
    }

    /** True if the last write of an id is an upsert that a frontier covers. */
    boolean isSettled(int id, long[] frontier) {
        int number = last[id];
        return number >= 0 && !deletes[number] && offsets[number] < frontier[id % partitions];
    }
}
