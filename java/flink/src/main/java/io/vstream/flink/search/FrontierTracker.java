package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import java.util.Arrays;

/**
 * Tracks how much of the vector stream has reached one partition. The smallest offsets that any
 * place subtask has sent count, and those of the checkpoint until all of them have sent some. Not
 * for several threads.
 *
 * <p>Cost of offsets: O(partitions of the source), and for each of these whose least offset has
 * gone up O(place subtasks): once per round of all subtasks.
 */
final class FrontierTracker {

    private final long[][] byPlace;
    private final Frontier restored;

    /** The least offset of each partition of the source, and how many place subtasks are there. */
    private long[] least = new long[0];

    private int[] there = new int[0];
    private Frontier frontier;

    /**
     * @param places parallelism of place
     * @param restored frontier that every partition of the checkpoint had reached; if its stream
     *     had ended then, its time says nothing about the stream that follows
     */
    FrontierTracker(int places, Frontier restored) {
        byPlace = new long[places][0];
        this.restored = new Frontier(Frontier.kept(restored.watermark()), restored.offsets());
        frontier = this.restored;
    }

    /**
     * One place subtask has sent the writes up to these offsets: see {@link
     * io.vstream.flink.place.Write#offsets}.
     */
    void offsets(int place, long[] offsets) {
        long[] before = byPlace[place];
        byPlace[place] = offsets;
        widen(offsets.length);
        for (int partition = 0; partition < least.length; partition++) {
            long then = offset(before, partition);
            long now = offset(offsets, partition);
            if (now < least[partition]) {
                least[partition] = now;
                there[partition] = 1;
            } else if (now != then) {
                there[partition] += now == least[partition] ? 1 : 0;
                there[partition] -= then == least[partition] ? 1 : 0;
                if (there[partition] == 0) {
                    find(partition);
                }
            }
        }
        frontier = new Frontier(frontier.watermark(), Frontier.max(restored.offsets(), least));
    }

    /**
     * Makes room for so many partitions of the source; nobody has sent anything of the new ones.
     */
    private void widen(int partitions) {
        int known = least.length;
        if (partitions > known) {
            least = Arrays.copyOf(least, partitions);
            there = Arrays.copyOf(there, partitions);
            Arrays.fill(least, known, partitions, Frontier.NO_OFFSET);
            Arrays.fill(there, known, partitions, byPlace.length);
        }
    }

    /** Finds the least offset of a partition among all place subtasks. */
    private void find(int partition) {
        long found = Long.MAX_VALUE;
        int count = 0;
        for (long[] offsets : byPlace) {
            long offset = offset(offsets, partition);
            count = offset < found ? 1 : count + (offset == found ? 1 : 0);
            found = Math.min(found, offset);
        }
        least[partition] = found;
        there[partition] = count;
    }

    private static long offset(long[] offsets, int partition) {
        return partition < offsets.length ? offsets[partition] : Frontier.NO_OFFSET;
    }

    /** All records up to this event time have come, in milliseconds since 1970. */
    void watermark(long time) {
        frontier = new Frontier(Math.max(time, restored.watermark()), frontier.offsets());
    }

    /** The frontier of an answer given now; the same object until something changes. */
    Frontier current() {
        return frontier;
    }
}
