package io.vstream.flink.place;

import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.route.SpreadGroup;
import io.vstream.nativecore.NativeGroups;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which groups of a place subtask are spread over slices, and since when. For the task thread.
 *
 * <ol>
 *   <li>A partition that answers for a group with too many rows says so, and the place subtask that
 *       has the group hears of it. It <i>announces</i> the group to all routers.
 *   <li>The next checkpoint that completes after its announcement shows that every router asks all
 *       slices: barriers are aligned, so each router has met the announcement, which was before the
 *       barrier. From then on rows <i>go to slices</i>.
 *   <li>A restore begins with a checkpoint that completed: whatever was announced in it is known to
 *       the routers of that checkpoint, and rows go to slices at once.
 * </ol>
 *
 * <p>So no query can miss a row, no record is held back, and no row moves. A group that is spread
 * stays so.
 */
final class GroupSpreading {

    /** Most groups of a subtask that are spread: every router holds each of them. */
    static final int SPREAD_MAX = 4096;

    private static final Logger LOG = LoggerFactory.getLogger(GroupSpreading.class);
    private static final long IN_NO_CHECKPOINT = -1;

    private final long seed;
    private final ShardKeys keys;
    private final KeyGroupRange shards;
    private final int slices;
    private final Consumer<SpreadGroup> announce;
    private final Map<String, SpreadGroup> spread = new HashMap<>();

    /** Groups that not all routers may know, with the first checkpoint that holds them. */
    private final Map<SpreadGroup, Long> announced = new HashMap<>();

    /**
     * @param seed of the collection
     * @param keys of the collection
     * @param shards whose groups pass the subtask
     * @param partitions of the job as it runs
     * @param announce sends a group to all routers
     */
    GroupSpreading(
            long seed,
            ShardKeys keys,
            KeyGroupRange shards,
            int partitions,
            Consumer<SpreadGroup> announce) {
        this.seed = seed;
        this.keys = keys;
        this.shards = shards;
        this.slices = SpreadGroup.slices(partitions);
        this.announce = announce;
    }

    /** The slices of a group; null if its rows go to one place. */
    SpreadGroup of(String group) {
        return spread.isEmpty() ? null : spread.get(group);
    }

    /** Takes what the checkpoint of a restore held: the groups of all subtasks. */
    void restore(Iterable<SpreadGroup> groups) {
        for (SpreadGroup group : groups) {
            if (shards.contains(group.shard())) {
                spread.put(group.group(), group);
            }
        }
    }

    /** Announces a group that has too many rows, unless it is known or is none of these shards. */
    void tooLarge(String group) {
        boolean known = spread.containsKey(group) || isAnnounced(group);
        boolean fits = group.getBytes(StandardCharsets.UTF_8).length <= SpreadGroup.NAME_BYTES_MAX;
        if (known
                || !fits
                || !shards.contains(NativeGroups.shard(seed, keys.shards(), group))
                || spread.size() + announced.size() >= SPREAD_MAX) {
            return;
        }
        SpreadGroup made = new SpreadGroup(group, seed, keys, slices);
        announced.put(made, IN_NO_CHECKPOINT);
        announce.accept(made);
        LOG.info("A group is spread over {} slices after the next checkpoint", slices);
    }

    private boolean isAnnounced(String group) {
        return announced.keySet().stream().anyMatch(one -> one.group().equals(group));
    }

    /** What a checkpoint holds. */
    List<SpreadGroup> snapshot(long checkpoint) {
        announced.replaceAll(
                (group, first) -> first == IN_NO_CHECKPOINT ? Long.valueOf(checkpoint) : first);
        List<SpreadGroup> all = new ArrayList<>(spread.values());
        all.addAll(announced.keySet());
        return all;
    }

    /** A checkpoint completed: every router knows what it holds. */
    void completed(long checkpoint) {
        Iterator<Map.Entry<SpreadGroup, Long>> entries = announced.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry<SpreadGroup, Long> entry = entries.next();
            if (entry.getValue() != IN_NO_CHECKPOINT && entry.getValue() <= checkpoint) {
                spread.put(entry.getKey().group(), entry.getKey());
                entries.remove();
            }
        }
    }
}
