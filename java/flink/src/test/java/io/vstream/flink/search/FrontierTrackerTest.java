package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import java.util.Arrays;
import java.util.Random;
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

    @Test
    void theLeastOffsetIsThatOfAllMarks() {
        for (int places : new int[] {1, 2, 7, 128}) {
            for (long seed = 1; seed <= 20; seed++) {
                Random random = new Random(seed);
                FrontierTracker tracker = new FrontierTracker(places, Frontier.NONE);
                long[][] sent = new long[places][0];
                for (int mark = 0; mark < 20 * places; mark++) {
                    int place = random.nextInt(places);
                    long[] next = next(sent[place], random);
                    sent[place] = next;
                    tracker.offsets(place, next);
                    long[] all = Arrays.stream(sent).reduce(Frontier::min).orElseThrow();
                    long[] found = tracker.current().offsets();
                    // Where nobody sends anything any more, nothing is known.
                    long[] unknown = new long[found.length];
                    Arrays.fill(unknown, Frontier.NO_OFFSET);
                    assertThat(found)
                            .as("%d places, seed %d, mark %d", places, seed, mark)
                            .isEqualTo(Frontier.max(all, unknown));
                }
            }
        }
    }

    /** Offsets that mostly go up by little, so that many are equal; some go down, some are new. */
    private static long[] next(long[] before, Random random) {
        int more = random.nextInt(10) == 0 ? random.nextInt(4) : 0;
        int length = random.nextInt(50) == 0 ? random.nextInt(3) : before.length + more;
        long[] next = Arrays.copyOf(before, Math.min(length, 40));
        for (int i = 0; i < next.length; i++) {
            next[i] = Math.max(Frontier.NO_OFFSET, next[i] + random.nextInt(5) - 1);
        }
        return next;
    }
}
