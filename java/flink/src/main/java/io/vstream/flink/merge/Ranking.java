package io.vstream.flink.merge;

import io.vstream.flink.search.Neighbors;
import java.util.Arrays;
import java.util.List;

/**
 * Merges the rows of several partitions: one row per id, then the k nearest, ties by id. Nearest by
 * their {@link Neighbors#order}, where they have one. Reuses its arrays; not for several threads.
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

    /** By so many 32 bits in turn rows are in order: two of their order, and two of their id. */
    private static final int DIGITS = 4;

    private long[] ids = new long[64];
    private long[] versions = new long[64];
    private float[] distances = new float[64];

    /** What rows are in order of. */
    private double[] keys = new double[64];

    /** Which list a row is of. */
    private int[] origins = new int[64];

    /** Where in that list it is. */
    private int[] places = new int[64];

    private int size;

    /** Open addressing: position of an id's row, or {@link #EMPTY}. */
    private int[] slots = new int[128];

    /** Rows by rank, each behind 32 bits by which it was put in order. */
    private long[] order = new long[64];

    /** How far each list reaches: a row of its partition that is nearer is in it. */
    private double[] reaches = new double[8];

    /** How far all lists reach of which a copy was dropped. */
    private double reach;

    /**
     * Ranks the rows of {@code parts}, the k nearest of a partition each or all that it has,
     * ascending; returns how many there are, k at most.
     */
    int rank(List<Neighbors> parts, int k) {
        int count = rank(parts, k, true);
        boolean mayLack = reach < Double.POSITIVE_INFINITY && count > 0;
        if (mayLack && keys[row(count - 1)] > reach) {
            return rank(parts, k, false);
        }
        return count;
    }

    private int rank(List<Neighbors> parts, int k, boolean newest) {
        size = 0;
        reach = Double.POSITIVE_INFINITY;
        Arrays.fill(slots, EMPTY);
        reaches = reaches.length < parts.size() ? new double[parts.size()] : reaches;
        for (int i = 0; i < parts.size(); i++) {
            Neighbors rows = parts.get(i);
            int last = rows.size() - 1;
            reaches[i] = rows.size() < k ? Double.POSITIVE_INFINITY : rows.orderOf(last);
            add(rows, i, newest);
        }
        for (int row = 0; row < size; row++) {
            order[row] = row;
        }
        sort(0, size, 0);
        return Math.min(k, size);
    }

    private void add(Neighbors rows, int origin, boolean newest) {
        reserve(size + rows.size());
        for (int i = 0; i < rows.size(); i++) {
            long id = rows.ids()[i];
            long version = rows.versions()[i];
            double key = rows.orderOf(i);
            int slot = slot(id);
            int row = slots[slot];
            if (row == EMPTY) {
                row = size++;
                slots[slot] = row;
                ids[row] = id;
                set(row, rows, origin, i);
                continue;
            }
            int order = Long.compareUnsigned(version, versions[row]);
            if (order != 0) {
                // One of the two is dropped, in whose place its partition has left out another.
                reach = Math.min(reach, reaches[order > 0 ? origins[row] : origin]);
            }
            if (newest ? order > 0 : key < keys[row]) {
                set(row, rows, origin, i);
            }
        }
    }

    private void set(int row, Neighbors from, int origin, int place) {
        versions[row] = from.versions()[place];
        distances[row] = from.distances()[place];
        keys[row] = from.orderOf(place);
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
        return (int) order[rank];
    }

    private int slot(long id) {
        int mask = slots.length - 1;
        int slot = (int) (id * 0x9e3779b97f4a7c15L >>> Integer.SIZE) & mask;
        while (slots[slot] != EMPTY && ids[slots[slot]] != id) {
            slot = slot + 1 & mask;
        }
        return slot;
    }

    /** Sorts some rows by one of their {@link #DIGITS}, and those with equal ones by the next. */
    private void sort(int from, int to, int digit) {
        for (int i = from; i < to; i++) {
            int row = row(i);
            order[i] = (long) digit(row, digit) << Integer.SIZE | row;
        }
        Arrays.sort(order, from, to);
        for (int first = from; first < to && digit + 1 < DIGITS; ) {
            int next = first + 1;
            while (next < to && order[next] >> Integer.SIZE == order[first] >> Integer.SIZE) {
                next++;
            }
            if (next - first > 1) {
                sort(first, next, digit + 1);
            }
            first = next;
        }
    }

    private int digit(int row, int digit) {
        return switch (digit) {
            case 0 -> (int) (ascending(keys[row]) >> Integer.SIZE);
            case 1 -> (int) ascending(keys[row]) ^ Integer.MIN_VALUE;
            case 2 -> (int) (ids[row] >> Integer.SIZE) ^ Integer.MIN_VALUE;
            default -> (int) ids[row] ^ Integer.MIN_VALUE;
        };
    }

    /** A signed integer that sorts as the number does, what is none last; 0 and -0 are one. */
    private static long ascending(double value) {
        long bits = Double.doubleToLongBits(value + 0.0);
        return bits ^ (bits >> Long.SIZE - 1 & Long.MAX_VALUE);
    }

    private void reserve(int rows) {
        if (rows > ids.length) {
            int capacity = Integer.highestOneBit(rows - 1) << 1;
            ids = Arrays.copyOf(ids, capacity);
            versions = Arrays.copyOf(versions, capacity);
            distances = Arrays.copyOf(distances, capacity);
            keys = Arrays.copyOf(keys, capacity);
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
