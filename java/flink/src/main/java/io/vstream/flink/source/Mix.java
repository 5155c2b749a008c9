package io.vstream.flink.source;

import java.io.Serializable;

/**
 * The ratio of queries, inserts and deletes as a repeating cycle in which each kind is spread
 * evenly. Pure arithmetic: what the n-th record is and how many of each kind came before it.
 */
public final class Mix implements Serializable {

    private static final long serialVersionUID = 1L;

    /** A record of the cycle. */
    enum Op {
        QUERY,
        INSERT,
        DELETE
    }

    private static final Op[] OPS = Op.values();
    private static final int CYCLE_MAX = 100_000;

    private final byte[] ops;
    private final int[][] before;

    /**
     * @param queries per cycle, 0 or more
     * @param inserts per cycle, 0 or more
     * @param deletes per cycle, 0 to {@code inserts}, so that deletes never run out of rows
     */
    public Mix(int queries, int inserts, int deletes) {
        long cycle = (long) queries + inserts + deletes;
        if (queries < 0 || inserts < 0 || deletes < 0 || cycle < 1 || cycle > CYCLE_MAX) {
            throw new IllegalArgumentException(
                    "The ratio of queries, inserts and deletes needs whole numbers with a sum from"
                            + " 1 to "
                            + CYCLE_MAX
                            + ".");
        }
        if (deletes > inserts) {
            throw new IllegalArgumentException(
                    "The ratio has more deletes than inserts, so the collection would run empty;"
                            + " lower workload.ratio.deletes.");
        }
        int[] shares = {queries, inserts, deletes};
        ops = new byte[(int) cycle];
        before = new int[shares.length][ops.length];
        int[] done = new int[shares.length];
        for (int i = 0; i < ops.length; i++) {
            for (int op = 0; op < shares.length; op++) {
                before[op][i] = done[op];
            }
            ops[i] = (byte) next(shares, done, i + 1);
            done[ops[i]]++;
        }
    }

    /** The kind that lags most behind its share of the first {@code records}; deletes go last. */
    private static int next(int[] shares, int[] done, int records) {
        int[] order = {Op.INSERT.ordinal(), Op.QUERY.ordinal(), Op.DELETE.ordinal()};
        int best = -1;
        long bestLag = Long.MIN_VALUE;
        long cycle = (long) shares[0] + shares[1] + shares[2];
        for (int op : order) {
            boolean early =
                    op == Op.DELETE.ordinal()
                            && (long) (done[op] + 1) * shares[Op.INSERT.ordinal()]
                                    > (long) done[Op.INSERT.ordinal()] * shares[op];
            long lag = (long) shares[op] * records - done[op] * cycle;
            if (done[op] < shares[op] && !early && lag > bestLag) {
                bestLag = lag;
                best = op;
            }
        }
        return best;
    }

    /** The kind of the {@code index}-th record. */
    Op op(long index) {
        return OPS[ops[(int) (index % ops.length)]];
    }

    /** How many records of kind {@code op} come before the {@code index}-th record. */
    long before(Op op, long index) {
        int last = ops.length - 1;
        int perCycle = before[op.ordinal()][last] + (ops[last] == op.ordinal() ? 1 : 0);
        return index / ops.length * perCycle + before[op.ordinal()][(int) (index % ops.length)];
    }

    /** Inserts per cycle. */
    int inserts() {
        return (int) before(Op.INSERT, ops.length);
    }

    /** Deletes per cycle. */
    int deletes() {
        return (int) before(Op.DELETE, ops.length);
    }
}
