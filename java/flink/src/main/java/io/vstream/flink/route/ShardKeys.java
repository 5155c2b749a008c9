package io.vstream.flink.route;

import java.io.Serializable;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;

/**
 * Ties shards to Flink's key groups: shard {@code s} is key group {@code s}, so Flink itself deals
 * shards to the subtasks of the search operator, keeps the two inputs together and rescales.
 *
 * <p>Flink hashes a key to find its key group. {@link #of} therefore gives for each shard some key
 * that hashes to it.
 */
public final class ShardKeys {

    /** Shards of every collection, and maximum parallelism of every job. */
    public static final int SHARDS = 128;

    private static final Integer[] KEYS = keys();

    private ShardKeys() {}

    /** A key whose key group is {@code shard}. */
    public static Integer of(int shard) {
        return KEYS[shard];
    }

    /** Which shard a record is for. */
    @FunctionalInterface
    public interface ShardOf<T> extends Serializable {
        /** 0 to 127. */
        int shard(T record);
    }

    /**
     * Sends each record to the partition of its shard, as {@code keyBy} would, but leaves the
     * operator behind it without a key: it keeps no state that Flink's backend should look after.
     */
    public static <T> DataStream<T> deal(DataStream<T> records, ShardOf<T> shardOf) {
        return new DataStream<>(
                records.getExecutionEnvironment(),
                new PartitionTransformation<>(
                        records.getTransformation(),
                        new KeyGroupStreamPartitioner<>(
                                record -> of(shardOf.shard(record)), SHARDS)));
    }

    /** The partition that holds {@code shard} when there are {@code parallelism} partitions. */
    public static int partition(int shard, int parallelism) {
        return KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(SHARDS, parallelism, shard);
    }

    /** A shard that {@code partition} holds when there are {@code parallelism} partitions. */
    public static int shardIn(int partition, int parallelism) {
        return KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(
                        SHARDS, parallelism, partition)
                .getStartKeyGroup();
    }

    /** An id that {@code keyBy(id)} sends to subtask {@code subtask} of {@code parallelism}. */
    public static long idIn(int subtask, int parallelism) {
        // A small number has the same hash code as an int and as a long.
        return of(shardIn(subtask, parallelism));
    }

    private static Integer[] keys() {
        Integer[] keys = new Integer[SHARDS];
        int found = 0;
        for (int key = 0; found < SHARDS; key++) {
            int group = KeyGroupRangeAssignment.assignToKeyGroup(key, SHARDS);
            if (keys[group] == null) {
                keys[group] = key;
                found++;
            }
        }
        return keys;
    }
}
