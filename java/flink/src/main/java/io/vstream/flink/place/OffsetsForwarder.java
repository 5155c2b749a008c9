package io.vstream.flink.place;

import io.vstream.flink.ingest.Frontier;
import java.util.function.Consumer;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;

/**
 * Gathers offsets of the sources and sends them on, at most every {@link
 * Frontier#OFFSETS_EVERY_MILLIS}. Sent later, they are behind more writes than they cover: never
 * before one of them. Not for several threads.
 */
final class OffsetsForwarder {

    private final ProcessingTimeService clock;
    private final Consumer<long[]> send;
    private long[] offsets = Frontier.NONE.offsets();
    private boolean scheduled;

    /**
     * @param clock of the task
     * @param send sends offsets to every partition; never changes them
     */
    OffsetsForwarder(ProcessingTimeService clock, Consumer<long[]> send) {
        this.clock = clock;
        this.send = send;
    }

    /** Adds what a source says; what it has said stays. */
    void add(long[] more) {
        offsets = Frontier.max(offsets, more);
        if (!scheduled) {
            scheduled = true;
            clock.registerTimer(
                    clock.getCurrentProcessingTime() + Frontier.OFFSETS_EVERY_MILLIS,
                    time -> forward());
        }
    }

    private void forward() {
        scheduled = false;
        send.accept(offsets);
    }
}
