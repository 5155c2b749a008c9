package io.vstream.flink.metrics;

import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongConsumer;
import org.HdrHistogram.Histogram;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Metric;

/**
 * The job's metrics as seen from the process that runs it.
 *
 * <p>A metric stays readable after its task ended, with its last value; the next attempt of the
 * subtask replaces it. So totals at the end of a job are complete, and after a restart nothing is
 * counted twice, since totals are part of the operators' state. Latencies are no state: those of
 * earlier attempts are kept beside the new ones.
 */
public final class MetricsView {

    private final Map<String, Map<String, Entry>> byName = new ConcurrentHashMap<>();

    private final List<Latency> earlier = new CopyOnWriteArrayList<>();

    private record Entry(Metric metric, int attempt) {}

    /** Called by the reporter for each new metric. */
    void add(String name, String operator, String subtask, int attempt, Metric metric) {
        Entry old =
                byName.computeIfAbsent(name, key -> new ConcurrentHashMap<>())
                        .put(operator + "/" + subtask, new Entry(metric, attempt));
        if (old != null && old.metric instanceof Latency latency) {
            earlier.add(latency);
        }
    }

    /** Sum of a number over all subtasks; 0 if nobody has registered it. */
    public long sum(String name) {
        long[] sum = new long[1];
        each(name, value -> sum[0] += value);
        return sum[0];
    }

    /** Largest value of a number over all subtasks, or {@code none} if nobody registered it. */
    public long max(String name, long none) {
        long[] max = {Long.MIN_VALUE};
        each(name, value -> max[0] = Math.max(max[0], value));
        return max[0] == Long.MIN_VALUE ? none : max[0];
    }

    /** Smallest value of a number over all subtasks, or {@code none} if nobody registered it. */
    public long min(String name, long none) {
        long[] min = {Long.MAX_VALUE};
        each(name, value -> min[0] = Math.min(min[0], value));
        return min[0] == Long.MAX_VALUE ? none : min[0];
    }

    /** Attempts that the job has taken so far, as far as its tasks have registered metrics. */
    public int attempts() {
        return 1
                + byName.values().stream()
                        .flatMap(entries -> entries.values().stream())
                        .mapToInt(Entry::attempt)
                        .max()
                        .orElse(0);
    }

    /** Subtasks whose number is not {@code value}. */
    public int others(String name, long value) {
        int[] others = new int[1];
        each(name, number -> others[0] += number == value ? 0 : 1);
        return others[0];
    }

    /** Values of a number by subtask, in order. One operator alone may own the metric. */
    public long[] bySubtask(String name) {
        Map<Integer, Long> sorted = new TreeMap<>();
        byName.getOrDefault(name, Map.of())
                .forEach(
                        (key, entry) ->
                                sorted.put(
                                        Integer.parseInt(key.substring(key.lastIndexOf('/') + 1)),
                                        number(entry.metric)));
        return sorted.values().stream().mapToLong(Long::longValue).toArray();
    }

    /** Sums of all numbers whose name begins with {@code prefix}, by the rest of the name. */
    public Map<String, Long> sums(String prefix) {
        Map<String, Long> sums = new TreeMap<>();
        for (String name : byName.keySet()) {
            if (name.startsWith(prefix)) {
                sums.put(name.substring(prefix.length()), sum(name));
            }
        }
        return sums;
    }

    /** The texts of all subtasks that are not empty, a line each. */
    public String texts(String name) {
        StringJoiner lines = new StringJoiner("\n");
        for (Entry entry : byName.getOrDefault(name, Map.of()).values()) {
            if (entry.metric instanceof Text text && !text.getValue().isEmpty()) {
                lines.add(text.getValue());
            }
        }
        return lines.toString();
    }

    /** Adds the latencies of all subtasks, and of their earlier attempts, to {@code sum}. */
    public void latency(Histogram sum) {
        earlier.forEach(latency -> latency.addTo(sum));
        for (Map<String, Entry> entries : byName.values()) {
            for (Entry entry : entries.values()) {
                if (entry.metric instanceof Latency latency) {
                    latency.addTo(sum);
                }
            }
        }
    }

    /**
     * The metrics that the tasks of one attempt have registered so far. A task that had ended
     * before the checkpoint that the attempt began with runs no operator, so it has none.
     */
    public MetricsView ofAttempt(int attempt) {
        MetricsView view = new MetricsView();
        byName.forEach(
                (name, entries) ->
                        entries.forEach(
                                (subtask, entry) -> {
                                    if (entry.attempt == attempt) {
                                        view.byName
                                                .computeIfAbsent(
                                                        name, key -> new ConcurrentHashMap<>())
                                                .put(subtask, entry);
                                    }
                                }));
        return view;
    }

    /** All numbers, for messages. */
    @Override
    public String toString() {
        Map<String, String> all = new TreeMap<>();
        byName.forEach(
                (name, entries) ->
                        entries.forEach(
                                (subtask, entry) ->
                                        all.put(
                                                name + " of " + subtask,
                                                number(entry.metric) + "@" + entry.attempt)));
        return all.toString();
    }

    private void each(String name, LongConsumer consumer) {
        for (Entry entry : byName.getOrDefault(name, Map.of()).values()) {
            consumer.accept(number(entry.metric));
        }
    }

    private static long number(Metric metric) {
        if (metric instanceof Counter counter) {
            return counter.getCount();
        }
        return metric instanceof Gauge<?> gauge && gauge.getValue() instanceof Number number
                ? number.longValue()
                : 0;
    }
}
