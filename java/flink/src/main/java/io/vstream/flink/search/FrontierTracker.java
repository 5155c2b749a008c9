package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import java.util.Arrays;

/**
 * Tracks how much of the vector stream has reached one partition. The smallest offsets that any
 * place subtask has sent count, and those of the checkpoint until all of them have sent some. Not
 * for several threads.
 */
final class FrontierTracker {

    private final long[][] byPlace;
    private final Frontier restored;
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
        byPlace[place] = offsets;
        long[] all = Arrays.stream(byPlace).reduce(Frontier::min).orElseThrow();
        frontier = new Frontier(frontier.watermark(), Frontier.max(restored.offsets(), all));
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
