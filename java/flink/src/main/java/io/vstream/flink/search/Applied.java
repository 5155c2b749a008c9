package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import java.util.Arrays;

/**
 * How much of the vector stream has reached one partition: what all place subtasks have said. Until
 * each of them has said something, what the checkpoint held counts. Not for several threads.
 */
final class Applied {

    private final long[][] byPlace;
    private final Frontier restored;
    private Frontier frontier;

    /**
     * @param places parallelism of place
     * @param restored what was behind every partition of the checkpoint; if its stream had ended
     *     then, that says nothing of the times of the stream that goes on
     */
    Applied(int places, Frontier restored) {
        byPlace = new long[places][0];
        this.restored = new Frontier(Frontier.kept(restored.watermark()), restored.offsets());
        frontier = this.restored;
    }

    /**
     * One place subtask has sent the writes up to these offsets: see {@link
     * io.vstream.flink.place.Write#offsets}.
     */
    void offsets(int place, long[] offsets) {
        byPlace[place] = offsets;
        long[] all = Arrays.stream(byPlace).reduce(Frontier::min).orElseThrow();
        frontier = new Frontier(frontier.watermark(), Frontier.max(restored.offsets(), all));
    }

    /** All records up to this event time have come, in milliseconds since 1970. */
    void watermark(long time) {
        frontier = new Frontier(Math.max(time, restored.watermark()), frontier.offsets());
    }

    /** What an answer of now has behind it; the same object until something changes. */
    Frontier frontier() {
        return frontier;
    }
}
