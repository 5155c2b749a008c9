package io.vstream.flink.job;

import io.vstream.flink.metrics.Latency;
import io.vstream.flink.metrics.MetricsView;
import io.vstream.flink.metrics.Names;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/** Turns the job's metrics into the JSON lines of the job runner. Not for several threads. */
final class ProgressReport {

    private static final double NANOS = 1e9;
    private static final double MICROS_PER_MILLI = 1e3;
    private static final double MILLION = 1e6;
    private static final long NANOS_PER_MICRO = 1_000;
    private static final String[] PHASES = {
        "preload", "training", "preload", "stream", "stream", "stream"
    };

    private final MetricsView metrics;
    private final long startNanos = System.nanoTime();
    private long lastNanos = startNanos;
    private long lastRecords;
    private Histogram lastLatency = Latency.empty();
    private String lastSample = "";
    private Counts baseline;
    private long answersBefore;
    private long measuredSince;
    private long[] lastWork = new long[0];
    private long lastAudits;
    private long lastMicros;

    ProgressReport(MetricsView metrics) {
        this.metrics = metrics;
    }

    /** Counts of place. */
    private record Counts(long upserts, long deletes, long unknownDeletes) {
        private long records() {
            return upserts + deletes + unknownDeletes;
        }
    }

    /**
     * Marks the beginning of the measured phase, if it has not been marked.
     *
     * @param leaveOut true if the vectors so far are not part of it
     */
    void beginMeasured(boolean leaveOut) {
        if (baseline == null) {
            baseline = leaveOut ? counts() : new Counts(0, 0, 0);
        }
    }

    /** Leaves out answers so far too: those of a run before this one, as long as queries wait. */
    void leaveOutAnswers() {
        if (baseline == null) {
            answersBefore = metrics.sum(Names.ANSWERS_MEASURED);
        }
    }

    /** True once the source is in the measured phase, and from then on. */
    boolean measuring() {
        // Its first beginning: after a restart the outage counts as measured time.
        if (measuredSince == 0) {
            measuredSince = metrics.max(Names.MEASURED_SINCE, 0);
        }
        return metrics.max(Names.PHASE, 0) >= Names.PHASE_STREAM;
    }

    /** How far the job is; rates and latencies since the last such line. */
    ObjectNode progress() {
        long now = System.nanoTime();
        Counts counts = counts();
        long records = counts.records() + metrics.sum(Names.ANSWERS);
        ObjectNode line = JsonNodeFactory.instance.objectNode();
        line.put("type", "progress");
        line.put("seconds", round((now - startNanos) / NANOS, 3));
        line.put("vectors", counts.upserts);
        line.put("deletes", counts.deletes);
        line.put("queries", metrics.sum(Names.ANSWERS));
        // A restart takes records back that the checkpoint did not hold.
        double rate = Math.max(0, records - lastRecords) / ((now - lastNanos) / NANOS);
        line.put("records_per_s", round(rate, 1));
        Histogram latency = latency();
        Histogram recent = latency.copy();
        if (recent.getTotalCount() >= lastLatency.getTotalCount()) {
            recent.subtract(lastLatency);
        }
        percentiles(line, recent, false);
        quality(line, counts);
        ArrayNode rows = line.putArray("rows_per_partition");
        for (long count : metrics.bySubtask(Names.ROWS)) {
            rows.add(count);
        }
        recent(line);
        line.put("bad_records", bad().values().stream().mapToLong(Long::longValue).sum());
        line.put("phase", PHASES[(int) metrics.max(Names.PHASE, 0)]);
        lastNanos = now;
        lastRecords = records;
        lastLatency = latency;
        return line;
    }

    /** Work and recall since the last line, what waits, and the step of the hand-over. */
    private void recent(ObjectNode line) {
        waiting(line);
        long[] search = metrics.bySubtask(Names.SEARCH_NANOS);
        long[] write = metrics.bySubtask(Names.WRITE_NANOS);
        ArrayNode work = line.putArray("work_us_per_partition");
        for (int i = 0; i < search.length; i++) {
            long nanos = search[i] + (i < write.length ? write[i] : 0);
            long before = i < lastWork.length ? lastWork[i] : 0;
            work.add(Math.max(0, nanos - before) / NANOS_PER_MICRO);
            search[i] = nanos;
        }
        lastWork = search;
        long audits = metrics.sum(Names.AUDITS);
        long micros = metrics.sum(Names.RECALL_MICROS);
        ratio(line, "recall_recent", (micros - lastMicros) / MILLION, audits - lastAudits);
        line.put("audits", audits);
        lastAudits = audits;
        lastMicros = micros;
        line.put("epoch", metrics.max(Names.EPOCH, 0));
        line.put("hand_over_step", metrics.max(Names.STEP, 0));
        line.put("rows_adopted", metrics.sum(Names.ADOPTED));
    }

    /** Writes that search has not applied, searches under way, and how far the index is behind. */
    private void waiting(ObjectNode line) {
        // The two sums are of slightly different moments.
        long writes = metrics.sum(Names.SENT) - metrics.sum(Names.APPLIED);
        line.put("writes_waiting", Math.max(0, writes));
        line.put("searches_in_flight", metrics.sum(Names.IN_FLIGHT));
        long lag = metrics.max(Names.FRESHNESS_LAG, -1);
        line.put("freshness_lag_ms", lag < 0 ? null : lag);
    }

    /** Answers for display, a line each, or null if there are no new ones. */
    String sample() {
        String sample = metrics.texts(Names.SAMPLE);
        if (sample.equals(lastSample)) {
            return null;
        }
        lastSample = sample;
        return sample;
    }

    /** The measured phase as a whole, after the job has ended. */
    ObjectNode result() {
        Counts all = counts();
        Counts before = baseline == null ? new Counts(0, 0, 0) : baseline;
        Counts counts =
                new Counts(
                        all.upserts - before.upserts,
                        all.deletes - before.deletes,
                        all.unknownDeletes - before.unknownDeletes);
        long queries = metrics.sum(Names.ANSWERS_MEASURED) - answersBefore;
        double seconds = measuredSeconds();
        ObjectNode line = JsonNodeFactory.instance.objectNode();
        line.put("type", "result");
        line.put("seconds", round(seconds, 3));
        line.put("vectors", counts.upserts);
        line.put("deletes", counts.deletes);
        line.put("unknown_deletes", counts.unknownDeletes);
        line.put("queries", queries);
        line.put(
                "records_per_s",
                seconds > 0 ? round((counts.records() + queries) / seconds, 1) : 0);
        percentiles(line, latency(), true);
        quality(line, all);
        line.put("audits", metrics.sum(Names.AUDITS));
        line.put("partial_answers", metrics.sum(Names.PARTIAL));
        line.put("preloaded", before.upserts);
        line.put("moves", metrics.sum(Names.MOVES));
        line.put("expired", metrics.sum(Names.ROWS_EXPIRED));
        ArrayNode rows = line.putArray("rows_per_partition");
        for (long count : metrics.bySubtask(Names.ROWS)) {
            rows.add(count);
        }
        ObjectNode reasons = JsonNodeFactory.instance.objectNode();
        long sum = 0;
        for (Map.Entry<String, Long> reason : bad().entrySet()) {
            sum += reason.getValue();
            if (reason.getValue() > 0) {
                reasons.put(reason.getKey(), reason.getValue());
            }
        }
        line.put("bad_records", sum);
        line.set("bad_by_reason", reasons);
        cost(line);
        return line;
    }

    private double measuredSeconds() {
        long since = measuredSince;
        long until =
                Math.max(metrics.max(Names.LAST_APPLIED, 0), metrics.max(Names.LAST_ANSWER, 0));
        return since == 0 ? 0 : Math.max(0, (until - since) / NANOS);
    }

    private Counts counts() {
        return new Counts(
                metrics.sum(Names.UPSERTS),
                metrics.sum(Names.DELETES),
                metrics.sum(Names.UNKNOWN_DELETES));
    }

    private Map<String, Long> bad() {
        return metrics.sums(Names.BAD);
    }

    private Histogram latency() {
        Histogram sum = Latency.empty();
        metrics.latency(sum);
        return sum;
    }

    private static void percentiles(ObjectNode line, Histogram latency, boolean whole) {
        percentile(line, "query_p50_ms", latency, 50);
        percentile(line, "query_p99_ms", latency, 99);
        if (whole) {
            percentile(line, "query_p999_ms", latency, 99.9);
            percentile(line, "query_max_ms", latency, 100);
        }
    }

    private static void percentile(ObjectNode line, String key, Histogram latency, double share) {
        if (latency.getTotalCount() == 0) {
            line.putNull(key);
        } else {
            line.put(key, latency.getValueAtPercentile(share) / MICROS_PER_MILLI);
        }
    }

    private void quality(ObjectNode line, Counts counts) {
        long audits = metrics.sum(Names.AUDITS);
        ratio(line, "recall_at_10", metrics.sum(Names.RECALL_MICROS) / MILLION, audits);
        ratio(line, "fan_out", metrics.sum(Names.FAN_OUT), metrics.sum(Names.ANSWERS_MEASURED));
        ratio(line, "copies", metrics.sum(Names.COPIES), counts.upserts);
    }

    /** Where the native time went: means per search and per write. */
    private void cost(ObjectNode line) {
        long searches = metrics.sum(Names.SEARCHES);
        ratio(line, "search_us", metrics.sum(Names.SEARCH_NANOS) / MICROS_PER_MILLI, searches);
        ratio(line, "leaves_per_search", metrics.sum(Names.LEAVES), searches);
        long applied = metrics.sum(Names.APPLIED);
        ratio(line, "write_us", metrics.sum(Names.WRITE_NANOS) / MICROS_PER_MILLI, applied);
    }

    private static void ratio(ObjectNode line, String key, double sum, long count) {
        if (count == 0) {
            line.putNull(key);
        } else {
            line.put(key, round(sum / count, 4));
        }
    }

    private static double round(double value, int digits) {
        double scale = Math.pow(10, digits);
        return Math.round(value * scale) / scale;
    }
}
