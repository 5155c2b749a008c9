package io.vstream.flink.bench;

import java.util.Arrays;
import java.util.BitSet;

/**
 * The writes that were sent, in order. A row's id is its number and its vector never changes, so
 * what is live is a set of rows. One thread adds; others may read what {@link #size} said before.
 */
final class WriteLog {

    private static final int DELETE = 1 << 31;

    private final int partitions;
    private final long[] offsets;
    private int[] rows = new int[1 << 20];
    private volatile int size;

    WriteLog(int partitions) {
        this.partitions = partitions;
        this.offsets = new long[partitions];
    }

    /** Notes a write; returns its partition. */
    synchronized int add(int row, boolean delete) {
        if (size == rows.length) {
            rows = Arrays.copyOf(rows, size * 2);
        }
        rows[size] = delete ? row | DELETE : row;
        size++;
        int partition = row % partitions;
        offsets[partition]++;
        return partition;
    }

    /** Writes so far. */
    int size() {
        return size;
    }

    /** What may be live. */
    record Live(BitSet certain, BitSet uncertain) {}

    /**
     * The rows that are live for a reader who has every write before {@code frontier} behind it,
     * and perhaps others among the first {@code until} writes.
     *
     * @param frontier next offset by partition; null for all writes
     * @return rows that are live, and rows that are live or not
     */
    synchronized Live live(long[] frontier, int until) {
        BitSet live = new BitSet();
        BitSet uncertain = new BitSet();
        long[] next = new long[partitions];
        for (int i = 0; i < until; i++) {
            int row = rows[i] & ~DELETE;
            int partition = row % partitions;
            long offset = next[partition]++;
            if (frontier == null || offset < frontier[partition]) {
                live.set(row, rows[i] >= 0);
            } else {
                // An update writes the same vector again: of a live row it changes nothing.
                if (rows[i] < 0 || !live.get(row)) {
                    uncertain.set(row);
                }
            }
        }
        live.andNot(uncertain);
        return new Live(live, uncertain);
    }
}
