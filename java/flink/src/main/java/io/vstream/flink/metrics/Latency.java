package io.vstream.flink.metrics;

import org.HdrHistogram.ConcurrentHistogram;
import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.HistogramStatistics;

/**
 * Latencies in microseconds, 1 us to 1 h with three digits, never sampled. One thread records, any
 * thread reads; memory about 0.2 MB.
 */
public final class Latency implements Histogram {

    private static final long HIGHEST_MICROS = 3_600_000_000L;
    private static final int DIGITS = 3;

    private final ConcurrentHistogram histogram = empty();

    /** A histogram with the same buckets. */
    public static ConcurrentHistogram empty() {
        return new ConcurrentHistogram(1, HIGHEST_MICROS, DIGITS);
    }

    /** Records a latency in microseconds. */
    @Override
    public void update(long micros) {
        histogram.recordValue(Math.max(1, Math.min(micros, HIGHEST_MICROS)));
    }

    @Override
    public long getCount() {
        return histogram.getTotalCount();
    }

    /** Adds all that was recorded so far to {@code sum}. */
    public void addTo(org.HdrHistogram.Histogram sum) {
        sum.add(histogram);
    }

    @Override
    public HistogramStatistics getStatistics() {
        return new Statistics(histogram.copy());
    }

    private static final class Statistics extends HistogramStatistics {

        private final ConcurrentHistogram histogram;

        private Statistics(ConcurrentHistogram histogram) {
            this.histogram = histogram;
        }

        @Override
        public double getQuantile(double quantile) {
            return histogram.getValueAtPercentile(quantile * 100);
        }

        @Override
        public long[] getValues() {
            return new long[0];
        }

        @Override
        public int size() {
            return (int) Math.min(Integer.MAX_VALUE, histogram.getTotalCount());
        }

        @Override
        public double getMean() {
            return histogram.getMean();
        }

        @Override
        public double getStdDev() {
            return histogram.getStdDeviation();
        }

        @Override
        public long getMax() {
            return histogram.getMaxValue();
        }

        @Override
        public long getMin() {
            return histogram.getMinValue();
        }
    }
}
