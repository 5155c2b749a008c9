package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.SampleSlice;
import io.vstream.nativecore.MovedRanges;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Random;
import org.junit.jupiter.api.Test;

class CellLoadsTest {

    private static final long SECOND = 1_000_000_000L;

    @Test
    void everyPartitionIsHeardBeforeItCounts() {
        CellLoads loads = new CellLoads(2);
        loads.take(report(0, 5, 100, 0));
        assertThat(loads.complete()).isFalse();
        loads.take(report(1, 5, 40, 0));
        assertThat(loads.complete()).isTrue();
        assertThat(loads.rows()).isEqualTo(140);
        loads.forget();
        assertThat(loads.complete()).isFalse();
    }

    @Test
    void whatGrowsCountsAsWhatItWillHold() {
        CellLoads loads = new CellLoads(1);
        for (int second = 0; second < 20; second++) {
            loads.take(report(0, 7, 1_000 + 200 * second, 0));
            loads.look(second * SECOND);
        }
        double ahead = loads.sum().getDouble(7 * 16);
        assertThat(ahead).isCloseTo(1_000 + 200 * 19 + 3 * 200, within(1.0));
        // What shrinks counts as what it holds.
        for (int second = 20; second < 60; second++) {
            loads.take(report(0, 7, 4_000 - 50 * second, 0));
            loads.look(second * SECOND);
        }
        assertThat(loads.sum().getDouble(7 * 16)).isCloseTo(4_000 - 50 * 59, within(1.0));
    }

    @Test
    void rowsThatComeAndGoAreAChange() {
        CellLoads loads = new CellLoads(1);
        loads.take(report(0, 1, 1_000, 0));
        assertThat(loads.changed()).isEqualTo(1);
        loads.learned();
        assertThat(loads.changed()).isZero();
        loads.take(report(0, 1, 1_100, 0));
        assertThat(loads.changed()).isCloseTo(100 / 1_100.0, within(1e-9));
        loads.take(report(0, 2, 1_000, 0));
        assertThat(loads.changed()).isCloseTo(2, within(1e-9));
    }

    @Test
    void searchesForQueriesOfOtherPartitionsCostEachRowTheSame() {
        byte[] loads = counts(3, 300, 9, 100);
        long[] nanos = new long[MovedRanges.BUCKETS];
        nanos[3] = 50_000;
        PartitionReport report =
                PartitionReport.of(0, 2, 1, 1).with(loads, loads, 0, nanos, 4_000_000, null);
        assertThat(report.buckets()).containsExactly((short) 3, (short) 9);
        assertThat(report.rows()).containsExactly(300, 100);
        assertThat(report.micros()).containsExactly(3_050, 1_000);
    }

    @Test
    void aSampleIsWholeWhenEverySliceIsThere() {
        PartitionSamples samples = new PartitionSamples(2);
        Random random = new Random(3);
        int size = 0;
        for (int partition = 0; partition < 2; partition++) {
            for (int slice = 0; slice < SampleSlice.SLICES; slice++) {
                assertThat(samples.complete()).isFalse();
                byte[] rows = new byte[24 * random.nextInt(5)];
                size += rows.length;
                samples.take(partition, new SampleSlice(partition == 0 ? 0.5 : 0.25, slice, rows));
            }
        }
        assertThat(samples.complete()).isTrue();
        assertThat(samples.share()).isEqualTo(0.25);
        assertThat(samples.rows()).hasSize(size);
        // A newer slice takes the place of the older one.
        samples.take(1, new SampleSlice(0.25, 0, new byte[2_400]));
        samples.take(1, new SampleSlice(0.25, 0, new byte[0]));
        assertThat(samples.rows().length).isLessThanOrEqualTo(size);
    }

    @Test
    void samplesAreBoundedInRowsAndBytes() {
        assertThat(SampleSlice.share(100, 8, 4)).isEqualTo(1);
        assertThat(SampleSlice.share(2_048_000, 100, 4)).isCloseTo(0.001, within(1e-9));
        double large = SampleSlice.share(1_000_000, 4_096, 4);
        assertThat(large * 1_000_000 * 4 * 4_096 * Float.BYTES).isLessThanOrEqualTo(32 << 20);
    }

    private static PartitionReport report(int partition, int bucket, int rows, int micros) {
        return new PartitionReport(
                partition,
                2,
                1,
                1,
                new short[] {(short) bucket},
                new int[] {rows},
                new int[] {micros},
                null);
    }

    private static byte[] counts(int bucket, int rows, int other, int others) {
        ByteBuffer counts =
                ByteBuffer.allocate(MovedRanges.BUCKETS * 8).order(ByteOrder.LITTLE_ENDIAN);
        counts.putInt(bucket * 8, rows).putInt(other * 8, others);
        return counts.array();
    }
}
