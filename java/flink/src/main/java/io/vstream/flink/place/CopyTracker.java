package io.vstream.flink.place;

import io.vstream.flink.route.ShardKeys;
import io.vstream.nativecore.MovedRanges;

/**
 * Finds the partitions that may hold copies of a row, which its deletes must reach. Reused; not for
 * several threads.
 */
final class CopyTracker {

    private final ShardKeys keys;
    private final int partitions;
    private final Holders holders;

    /**
     * @param keys of the collection
     * @param partitions of the job
     */
    CopyTracker(ShardKeys keys, int partitions) {
        this.keys = keys;
        this.partitions = partitions;
        holders = new Holders(partitions);
    }

    /**
     * Finds the holders of a row by the template in use. An old owner of its range is one of them.
     *
     * @param old last location of the row
     * @param before its location before it was placed, if the old copies are still there; else null
     */
    void find(Location old, Location before, TemplateSwitch template) {
        holders.clear();
        Placements placements = template.placements();
        long code = old.code(0);
        if (placements.moving()) {
            add(code, placements.shardOf(code));
        } else {
            addAll(old);
        }
        MovedRanges moves = template.moves();
        if (moves == null) {
            return;
        }
        int range = moves.rangeOf(code);
        if (range >= 0) {
            add(code, moves.from(range));
        }
        if (before != null) {
            addAll(before);
        }
    }

    /** Takes the copies at {@code place} for all that there are. */
    void findAt(Location place) {
        holders.clear();
        addAll(place);
    }

    private void addAll(Location place) {
        for (int i = 0; i < place.count(); i++) {
            add(place.code(i), place.shard(i));
        }
    }

    private void add(long code, int shard) {
        holders.add(partition(shard), code, shard);
    }

    /** The partitions that were found. */
    Holders holders() {
        return holders;
    }

    /** True if no earlier copy is in the same partition, where both would be one row. */
    boolean isFirstInPartition(Location place, int copy) {
        for (int i = 0; i < copy; i++) {
            if (partition(place.shard(i)) == partition(place.shard(copy))) {
                return false;
            }
        }
        return true;
    }

    /** True if a copy at {@code place} is in the partition of {@code shard}. */
    boolean sharesPartition(Location place, int shard) {
        int partition = partition(shard);
        for (int i = 0; i < place.count(); i++) {
            if (partition(place.shard(i)) == partition) {
                return true;
            }
        }
        return false;
    }

    private int partition(int shard) {
        return keys.partition(shard, partitions);
    }
}
