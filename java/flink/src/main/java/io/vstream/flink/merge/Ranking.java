package io.vstream.flink.merge;

import io.vstream.flink.search.Neighbors;
import java.util.Arrays;

/**
 * Merges the rows of several partitions: one row per id, the one with the highest version, then the
 * k nearest, ties by id. Reuses its arrays; not for several threads.
 *
 * <p>Cost: O(n log n) for n rows in all.
 */
final class Ranking {

    private static final int EMPTY = -1;
    private static final long INDEX_MASK = 0xffffffffL;

    private long[] ids = new long[64];
    private long[] versions = new long[64];
    private float[] distances = new float[64];
    private int size;

    /** Open addressing: position of an id's row, or {@link #EMPTY}. */
    private int[] slots = new int[128];

    private long[] order = new long[64];

    /** Forgets all rows; call it before the first use, too. */
    void clear() {
        size = 0;
        Arrays.fill(slots, EMPTY);
    }

    /** Adds the rows of one partition. */
    void add(Neighbors rows) {
        reserve(size + rows.size());
        for (int i = 0; i < rows.size(); i++) {
            add(rows.ids()[i], rows.versions()[i], rows.distances()[i]);
        }
    }

    /** Sorts the rows; at most {@code k} remain, and the count is returned. */
    int rank(int k) {
        for (int i = 0; i < size; i++) {
            order[i] = (long) ascending(distances[i]) << Integer.SIZE | i;
        }
        Arrays.sort(order, 0, size);
        sortTiesById();
        return Math.min(k, size);
    }

    /** Id of the row at {@code rank}, 0 for the nearest. */
    long id(int rank) {
        return ids[row(rank)];
    }

    /** Distance of the row at {@code rank}. */
    float distance(int rank) {
        return distances[row(rank)];
    }

    private int row(int rank) {
        return (int) (order[rank] & INDEX_MASK);
    }

    private void add(long id, long version, float distance) {
        int slot = slot(id);
        int row = slots[slot];
        if (row == EMPTY) {
            row = size++;
            slots[slot] = row;
            ids[row] = id;
        } else if (Long.compareUnsigned(version, versions[row]) <= 0) {
            return;
        }
        versions[row] = version;
        distances[row] = distance;
    }

    private int slot(long id) {
        int mask = slots.length - 1;
        int slot = (int) (id * 0x9e3779b97f4a7c15L >>> Integer.SIZE) & mask;
        while (slots[slot] != EMPTY && ids[slots[slot]] != id) {
            slot = slot + 1 & mask;
        }
        return slot;
    }

    /** A signed integer that sorts as the float does. */
    private static int ascending(float value) {
        int bits = Float.floatToIntBits(value + 0.0f);
        return bits ^ (bits >> Integer.SIZE - 1 & Integer.MAX_VALUE);
    }

    private void sortTiesById() {
        for (int i = 1; i < size; i++) {
            long moving = order[i];
            int at = i;
            while (at > 0 && after(order[at - 1], moving)) {
                order[at] = order[at - 1];
                at--;
            }
            order[at] = moving;
        }
    }

    /** True if both rows are equally far and {@code left} has the larger id. */
    private boolean after(long left, long right) {
        return left >> Integer.SIZE == right >> Integer.SIZE
                && Long.compareUnsigned(
                                ids[(int) (left & INDEX_MASK)], ids[(int) (right & INDEX_MASK)])
                        > 0;
    }

    private void reserve(int rows) {
        if (rows > ids.length) {
            int capacity = Integer.highestOneBit(rows - 1) << 1;
            ids = Arrays.copyOf(ids, capacity);
            versions = Arrays.copyOf(versions, capacity);
            distances = Arrays.copyOf(distances, capacity);
            order = new long[capacity];
            int[] old = slots;
            slots = new int[capacity * 2];
            Arrays.fill(slots, EMPTY);
            for (int row : old) {
                if (row != EMPTY) {
                    slots[slot(ids[row])] = row;
                }
            }
        }
    }
}
