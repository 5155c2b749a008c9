package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import org.junit.jupiter.api.Test;

class AppliedTest {

    @Test
    void nothingIsKnownUntilEveryPlaceTaskHasSpoken() {
        Applied applied = new Applied(2, Frontier.NONE);
        applied.offsets(0, new long[] {5, 6});
        assertThat(applied.frontier().offsets()).containsOnly(Frontier.NO_OFFSET);
        applied.offsets(1, new long[] {4, 9, 2});
        assertThat(applied.frontier().offsets()).containsExactly(4, 6, Frontier.NO_OFFSET);
        applied.offsets(0, new long[] {8, 8, 1});
        assertThat(applied.frontier())
                .isEqualTo(new Frontier(Frontier.NO_TIME, new long[] {4, 8, 1}));
    }

    @Test
    void whatTheCheckpointHeldCountsUntilMoreIsKnown() {
        Frontier restored = Frontier.ofLongs(new long[] {70, 5, 6});
        Applied applied = new Applied(2, restored);
        assertThat(applied.frontier()).isEqualTo(restored);
        applied.offsets(0, new long[] {9, 9});
        assertThat(applied.frontier()).isEqualTo(restored);
        applied.offsets(1, new long[] {8, 5});
        applied.watermark(60);
        assertThat(applied.frontier().toLongs()).containsExactly(70, 8, 6);
    }

    @Test
    void theEndOfAStreamIsNoTimeOfTheOneThatGoesOn() {
        Frontier drained = Frontier.ofLongs(new long[] {Long.MAX_VALUE, 5});
        Applied applied = new Applied(1, drained);
        assertThat(applied.frontier().toLongs()).containsExactly(Frontier.NO_TIME, 5);
        applied.watermark(60);
        applied.offsets(0, new long[] {4});
        assertThat(applied.frontier().toLongs()).containsExactly(60, 5);
    }

    @Test
    void timeAndOffsetsMoveOnTheirOwn() {
        Applied applied = new Applied(1, Frontier.NONE);
        applied.watermark(70);
        applied.offsets(0, new long[] {3});
        Frontier before = applied.frontier();
        applied.watermark(71);
        assertThat(before).isEqualTo(new Frontier(70, new long[] {3}));
        assertThat(applied.frontier()).isEqualTo(new Frontier(71, new long[] {3}));
    }
}
