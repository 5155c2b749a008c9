package io.vstream.flink.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.BitSet;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class WriteLogTest {

    private static final int PARTITIONS = 2;

    @Test
    void whatIsLiveAtAFrontierIsCertainUnlessALaterWriteMayHaveChangedIt() {
        WriteLog log = new WriteLog(PARTITIONS);
        assertThat(log.add(4, false)).isZero();
        assertThat(log.add(5, false)).isEqualTo(1);
        log.add(6, false);
        log.add(4, true);
        log.add(7, false);
        log.add(6, true);
        log.add(5, false);
        assertThat(rows(log.live(null, log.size()).certain())).containsExactly(5, 7);
        assertThat(rows(log.live(null, 3).certain())).containsExactly(4, 5, 6);

        // Partition 0 up to the delete of 4, partition 1 up to the first write of 5.
        WriteLog.Live live = log.live(new long[] {3, 1}, log.size());
        assertThat(rows(live.certain())).containsExactly(5);
        assertThat(rows(live.uncertain())).containsExactly(6, 7);
    }

    private static int[] rows(BitSet rows) {
        return IntStream.range(0, rows.length()).filter(rows::get).toArray();
    }
}
