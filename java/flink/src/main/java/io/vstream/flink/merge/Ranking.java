package io.vstream.flink.merge;

import io.vstream.flink.search.Neighbors;
import java.util.Arrays;
import java.util.List;

/**
 * Merges the rows of several partitions: one row per id, then the k nearest, ties by id. Reuses its
 * arrays; not for several threads.
 *
 * <p>Partitions answer at moments of their own, so that a row that goes from one to another between
 * these may be found in both. Of its copies the highest version is taken: it is the newest. A
 * partition whose k rows hold older copies, however, has left out rows for them that would now be
 * in the answer. Where such a row may be missing, the nearest copy of each id is taken instead:
 * then k rows of a partition that are nearer than a row of it stay k rows that are nearer, and each
 * copy was the row of its id when its partition answered.
 *
 * <p>Cost: O(n log n) for n rows in all, twice if a row may be missing.
 */
final class Ranking {

    private static final int EMPTY = -1;
    private static final long INDEX_MASK = 0xffffffffL;

    private long[] ids = new long[64];
    private long[] versions = new long[64];
    private float[] distances = new float[64];

    /** Which list a row is of. */
    private int[] origins = new int[64];

    /** Where in that list it is. */
    private int[] places = new int[64];

    private int size;

    /** Open addressing: position of an id's row, or {@link #EMPTY}. */
    private int[] slots = new int[128];

    private long[] order = new long[64];

    /** How far each list reaches: a row of its partition that is nearer is in it. */
    private float[] reaches = new float[8];

    /** How far all lists reach of which a copy was dropped. */
    private float reach;

    /**
     * Ranks the rows of {@code parts}, the k nearest of a partition each or all that it has,
     * ascending; returns how many there are, k at most.
     */
    int rank(List<Neighbors> parts, int k) {
        int count = rank(parts, k, true);
        boolean mayLack = reach < Float.POSITIVE_INFINITY && count > 0;
        if (mayLack && distance(count - 1) > reach) {
            return rank(parts, k, false);
        }
        return count;
    }

    private int rank(List<Neighbors> parts, int k, boolean newest) {
        size = 0;
        reach = Float.POSITIVE_INFINITY;
        Arrays.fill(slots, EMPTY);
        reaches = reaches.length < parts.size() ? new float[parts.size()] : reaches;
        for (int i = 0; i < parts.size(); i++) {
            Neighbors rows = parts.get(i);
            int last = rows.size() - 1;
            reaches[i] = rows.size() < k ? Float.POSITIVE_INFINITY : rows.distances()[last];
            add(rows, i, newest);
        }
        for (int i = 0; i < size; i++) {
            order[i] = (long) ascending(distances[i]) << Integer.SIZE | i;
        }
        Arrays.sort(order, 0, size);
        sortTiesById();
        return Math.min(k, size);
    }

    private void add(Neighbors rows, int origin, boolean newest) {
        reserve(size + rows.size());
        for (int i = 0; i < rows.size(); i++) {
            long id = rows.ids()[i];
            long version = rows.versions()[i];
            float distance = rows.distances()[i];
            int slot = slot(id);
            int row = slots[slot];
            if (row == EMPTY) {
                row = size++;
                slots[slot] = row;
                ids[row] = id;
                set(row, version, distance, origin, i);
                continue;
            }
            int order = Long.compareUnsigned(version, versions[row]);
            if (order != 0) {
                // One of the two is dropped, in whose place its partition has left out another.
                reach = Math.min(reach, reaches[order > 0 ? origins[row] : origin]);
            }
            if (newest ? order > 0 : distance < distances[row]) {
                set(row, version, distance, origin, i);
            }
        }
    }

    private void set(int row, long version, float distance, int origin, int place) {
        versions[row] = version;
        distances[row] = distance;
        origins[row] = origin;
        places[row] = place;
    }

    /** Id of the row at {@code rank}, 0 for the nearest. */
    long id(int rank) {
        return ids[row(rank)];
    }

    /** Distance of the row at {@code rank}. */
    float distance(int rank) {
        return distances[row(rank)];
    }

    /** Which of the lists the row at {@code rank} is of. */
    int origin(int rank) {
        return origins[row(rank)];
    }

    /** Where in its list the row at {@code rank} is. */
    int place(int rank) {
        return places[row(rank)];
    }

    private int row(int rank) {
        return (int) (order[rank] & INDEX_MASK);
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
            origins = Arrays.copyOf(origins, capacity);
            places = Arrays.copyOf(places, capacity);
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
