package io.vstream.flink.route;

import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;

/**
 * Ties the shards of a collection to Flink's key groups: shard {@code s} is key group {@code s}, so
 * Flink itself deals shards to the subtasks of the search operator, keeps the two inputs together
 * and rescales. The number of shards is the maximum parallelism of the steps of a search, and never
 * changes.
 *
 * <p>Flink hashes a key to find its key group. {@link #key} therefore gives for each shard some key
 * that hashes to it. There is one instance for each number of shards.
 */
public final class ShardKeys implements Serializable {

    private static final long serialVersionUID = 1L;

    /** Shards of a collection that does not say; the least that one can have. */
    public static final int USUAL = 128;

    /** Most shards of a collection: a template has a byte for each pair of cell and shard. */
    public static final int MAX = 4_096;

    private static final Map<Integer, ShardKeys> KNOWN = new ConcurrentHashMap<>();
    private static final ObjectMapper JSON = new ObjectMapper();

    private final int shards;
    private final transient Integer[] keys;

    private ShardKeys(int shards) {
        this.shards = shards;
        keys = keys(shards);
    }

    /**
     * The keys of collections with so many shards. Cost: some ten thousand hashes at first.
     *
     * @param shards a power of two from {@link #USUAL} to {@link #MAX}
     * @throws IllegalArgumentException with a sentence if it is another number
     */
    public static ShardKeys of(int shards) {
        if (shards < USUAL || shards > MAX || Integer.bitCount(shards) != 1) {
            throw new IllegalArgumentException(
                    "collection.shards: "
                            + shards
                            + " is no power of two from "
                            + USUAL
                            + " to "
                            + MAX
                            + ". The number is chosen when the collection is made.");
        }
        return KNOWN.computeIfAbsent(shards, ShardKeys::new);
    }

    /**
     * The keys of a collection.
     *
     * @param collection its settings as JSON
     * @throws IllegalArgumentException with a sentence if its number of shards cannot be
     */
    public static ShardKeys ofCollection(String collection) {
        try {
            JsonNode shards = JSON.readTree(collection).path("shards");
            // A text or a fraction becomes 0, which no collection has.
            return of(shards.isMissingNode() ? USUAL : shards.isInt() ? shards.asInt() : 0);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(
                    "The settings of the collection are not JSON: " + e.getOriginalMessage(), e);
        }
    }

    /** Shards of the collection, and largest parallelism of its jobs. */
    public int shards() {
        return shards;
    }

    /** A key whose key group is {@code shard}. */
    public Integer key(int shard) {
        return keys[shard];
    }

    /** Which shard a record is for. */
    @FunctionalInterface
    public interface ShardOf<T> extends Serializable {
        /** 0 to the number of shards, exclusive. */
        int shard(T record);
    }

    /**
     * Sends each record to the partition of its shard, as {@code keyBy} would, but leaves the
     * operator behind it without a key: it keeps no state that Flink's backend should look after.
     */
    public <T> DataStream<T> deal(DataStream<T> records, ShardOf<T> shardOf) {
        return new DataStream<>(
                records.getExecutionEnvironment(),
                new PartitionTransformation<>(
                        records.getTransformation(),
                        new KeyGroupStreamPartitioner<>(
                                record -> key(shardOf.shard(record)), shards)));
    }

    /** The partition that holds {@code shard} when there are {@code parallelism} partitions. */
    public int partition(int shard, int parallelism) {
        return KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(shards, parallelism, shard);
    }

    /** The shards that {@code partition} holds when there are {@code parallelism} partitions. */
    public KeyGroupRange shardsOf(int partition, int parallelism) {
        return KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(
                shards, parallelism, partition);
    }

    /** A shard that {@code partition} holds when there are {@code parallelism} partitions. */
    public int shardIn(int partition, int parallelism) {
        return shardsOf(partition, parallelism).getStartKeyGroup();
    }

    /** An id that {@code keyBy(id)} sends to subtask {@code subtask} of {@code parallelism}. */
    public long idIn(int subtask, int parallelism) {
        // A small number has the same hash code as an int and as a long.
        return key(shardIn(subtask, parallelism));
    }

    /** Tasks of one process share the table. */
    private Object readResolve() {
        return of(shards);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ShardKeys that && shards == that.shards;
    }

    @Override
    public int hashCode() {
        return shards;
    }

    @Override
    public String toString() {
        return shards + " shards";
    }

    private static Integer[] keys(int shards) {
        Integer[] keys = new Integer[shards];
        int found = 0;
        for (int key = 0; found < shards; key++) {
            int group = KeyGroupRangeAssignment.assignToKeyGroup(key, shards);
            if (keys[group] == null) {
                keys[group] = key;
                found++;
            }
        }
        return keys;
    }
}
