package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import org.junit.jupiter.api.Test;

class FrontierTrackerTest {

    @Test
    void nothingIsKnownUntilEveryPlaceTaskHasSpoken() {
        FrontierTracker tracker = new FrontierTracker(2, Frontier.NONE);
        tracker.offsets(0, new long[] {5, 6});
        assertThat(tracker.current().offsets()).containsOnly(Frontier.NO_OFFSET);
        tracker.offsets(1, new long[] {4, 9, 2});
        assertThat(tracker.current().offsets()).containsExactly(4, 6, Frontier.NO_OFFSET);
        tracker.offsets(0, new long[] {8, 8, 1});
        assertThat(tracker.current())
                .isEqualTo(new Frontier(Frontier.NO_TIME, new long[] {4, 8, 1}));
    }

    @Test
    void whatTheCheckpointHeldCountsUntilMoreIsKnown() {
        Frontier restored = Frontier.ofLongs(new long[] {70, 5, 6});
        FrontierTracker tracker = new FrontierTracker(2, restored);
        assertThat(tracker.current()).isEqualTo(restored);
        tracker.offsets(0, new long[] {9, 9});
        assertThat(tracker.current()).isEqualTo(restored);
        tracker.offsets(1, new long[] {8, 5});
        tracker.watermark(60);
        assertThat(tracker.current().toLongs()).containsExactly(70, 8, 6);
    }

    @Test
    void theEndOfAStreamIsNoTimeOfTheOneThatGoesOn() {
        Frontier drained = Frontier.ofLongs(new long[] {Long.MAX_VALUE, 5});
        FrontierTracker tracker = new FrontierTracker(1, drained);
        assertThat(tracker.current().toLongs()).containsExactly(Frontier.NO_TIME, 5);
        tracker.watermark(60);
        tracker.offsets(0, new long[] {4});
        assertThat(tracker.current().toLongs()).containsExactly(60, 5);
    }

    @Test
    void timeAndOffsetsMoveOnTheirOwn() {
        FrontierTracker tracker = new FrontierTracker(1, Frontier.NONE);
        tracker.watermark(70);
        tracker.offsets(0, new long[] {3});
        Frontier before = tracker.current();
        tracker.watermark(71);
        assertThat(before).isEqualTo(new Frontier(70, new long[] {3}));
        assertThat(tracker.current()).isEqualTo(new Frontier(71, new long[] {3}));
    }
}
