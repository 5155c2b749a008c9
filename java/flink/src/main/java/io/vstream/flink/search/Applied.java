package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import java.util.Arrays;

/**
 * How much of the vector stream has reached one partition: what all place subtasks have said. Until
 * each of them has said something, nothing is known. Not for several threads.
 */
final class Applied {

    private final long[][] byPlace;
    private Frontier frontier = Frontier.NONE;

    /**
     * @param places parallelism of place
     */
    Applied(int places) {
        byPlace = new long[places][0];
    }

    /** A mark of one place subtask: see {@link io.vstream.flink.place.Write#offsets}. */
    void mark(int place, long[] offsets) {
        byPlace[place] = offsets;
        long[] all = Arrays.stream(byPlace).reduce(Frontier::min).orElseThrow();
        frontier = new Frontier(frontier.watermark(), all);
    }

    /** All records up to this event time have come, in milliseconds since 1970. */
    void watermark(long time) {
        frontier = new Frontier(time, frontier.offsets());
    }

    /** What an answer of now has behind it; the same object until something changes. */
    Frontier frontier() {
        return frontier;
    }
}
