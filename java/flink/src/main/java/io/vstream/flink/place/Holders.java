package io.vstream.flink.place;

/** Partitions that may hold copies of one row, each once. Reused; not for several threads. */
final class Holders {

    private final boolean[] known;
    private final int[] partitions;
    private final int[] shards;
    private final long[] codes;
    private int count;

    /**
     * @param partitionsMax partitions of the job
     */
    Holders(int partitionsMax) {
        known = new boolean[partitionsMax];
        partitions = new int[partitionsMax];
        shards = new int[partitionsMax];
        codes = new long[partitionsMax];
    }

    /** Forgets all. */
    void clear() {
        for (int i = 0; i < count; i++) {
            known[partitions[i]] = false;
        }
        count = 0;
    }

    /** Adds a partition, with a code and a shard of it by which it is reached. */
    void add(int partition, long code, int shard) {
        if (!known[partition]) {
            known[partition] = true;
            partitions[count] = partition;
            codes[count] = code;
            shards[count] = shard;
            count++;
        }
    }

    /** How many there are. */
    int count() {
        return count;
    }

    /** A code by which holder {@code i} is reached. */
    long code(int i) {
        return codes[i];
    }

    /** A shard of holder {@code i}. */
    int shard(int i) {
        return shards[i];
    }
}
