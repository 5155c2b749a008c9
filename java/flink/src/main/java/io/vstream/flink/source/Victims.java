package io.vstream.flink.source;

import java.io.Serializable;

/**
 * Which row each delete of the generator removes: a pure function of the delete's number, and
 * always a row that is live at that moment.
 *
 * <p>Inserts are numbered 0, 1, 2, ... and insert {@code t} writes row {@code t mod rows}. Delete
 * {@code j} undoes insert {@code v(j)}, where {@code v} permutes each block of {@code block}
 * numbers by a seeded full-period step. The row of {@code v(j)} is live because
 *
 * <ol>
 *   <li>the block of {@code j} was inserted whole before its first delete: {@code block} is at most
 *       the preload, and there are never more deletes than inserts;
 *   <li>an earlier delete of the same row undid insert {@code v(j) - rows} or an older one. Either
 *       insert {@code v(j)} came after that delete, or at least {@code rows} inserts did, and one
 *       of them wrote the row again. The bound on {@code block} below sees to it.
 * </ol>
 */
final class Victims implements Serializable {

    private static final long serialVersionUID = 1L;

    private static final int BLOCK_MAX = 1 << 16;

    private final int block;
    private final long seed;

    /**
     * @param rows of the data set
     * @param preload inserts before the first record of the mix, at most {@code rows}
     */
    Victims(int rows, int preload, Mix mix, long seed) {
        this.seed = seed;
        long bound;
        if (mix.inserts() == mix.deletes()) {
            bound = rows - preload;
        } else {
            bound =
                    ((long) rows * (mix.inserts() - mix.deletes()) / mix.inserts() - mix.inserts())
                            / 2;
        }
        this.block = (int) Math.max(1, Math.min(Math.min(BLOCK_MAX, preload), bound));
    }

    /** The insert that delete {@code j} undoes. */
    long insert(long j) {
        long number = j / block;
        long random = mixed(seed + number);
        long step = Long.remainderUnsigned(random, block) | 1;
        while (gcd(step, block) != 1) {
            step += 2;
        }
        long offset = Long.remainderUnsigned(mixed(random), block);
        return number * block + (j % block * step + offset) % block;
    }

    private static long gcd(long a, long b) {
        return b == 0 ? a : gcd(b, a % b);
    }

    /** The finalizer of SplitMix64. */
    private static long mixed(long value) {
        long z = value + 0x9e3779b97f4a7c15L;
        z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return z ^ (z >>> 31);
    }
}
