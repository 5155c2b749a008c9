package io.vstream.flink.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * CPU time of a process by what its threads do, as Linux counts it: the first number of {@code
 * schedstat} is nanoseconds on a processor. Linux keeps 15 characters of a thread's name, which is
 * the beginning of the names of a Flink task's operators.
 */
final class ThreadTimes {

    private static final double NANOS = 1e9;
    private static final double TICKS = 100;

    /** Beginnings of thread names, and what we call them; the first that fits counts. */
    private static final List<Map.Entry<String, String>> STAGES =
            List.of(
                    Map.entry("Source: vector", "source and decode of vectors"),
                    Map.entry("Source: query", "source and decode of queries"),
                    Map.entry("Source Data Fet", "fetching from Kafka"),
                    Map.entry("place", "place"),
                    Map.entry("route", "route"),
                    Map.entry("search", "search"),
                    Map.entry("merge", "merge and sink"),
                    Map.entry("kafka-producer", "sending to Kafka"),
                    Map.entry("vstream-search", "searches beside the task"),
                    Map.entry("vstream-recall", "recall guard"),
                    Map.entry("vstream-", "log, checkpoints and hand-overs"),
                    Map.entry("writes", "calls that write"),
                    Map.entry("ask", "calls that ask"),
                    Map.entry("peer-", "calls that write or ask"),
                    Map.entry("HttpClient", "calls that write or ask"),
                    Map.entry("grpc", "calls that write or ask"),
                    Map.entry("Z", "garbage collection"),
                    Map.entry("XWorker", "garbage collection"),
                    Map.entry("GC", "garbage collection"),
                    Map.entry("G1", "garbage collection"),
                    Map.entry("C1", "JIT"),
                    Map.entry("C2", "JIT"),
                    Map.entry("Flink Netty", "network"));

    private ThreadTimes() {}

    /** CPU seconds by stage since the process began; threads that ended are not counted. */
    static Map<String, Double> byStage(long pid) {
        Map<String, Double> sums = new TreeMap<>();
        try (Stream<Path> threads = Files.list(Path.of("/proc/" + pid + "/task"))) {
            for (Path thread : threads.toList()) {
                add(thread, sums);
            }
        } catch (IOException e) {
            throw new IllegalStateException("Process " + pid + " has ended.", e);
        }
        return sums;
    }

    /** CPU seconds of all threads that live. */
    static double sum(long pid) {
        return byStage(pid).values().stream().mapToDouble(seconds -> seconds).sum();
    }

    /** CPU seconds of everything on this machine since it started. */
    static double machine() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/stat"))) {
            String[] words = lines.findFirst().orElseThrow().split(" +");
            // user, nice, system, then idle and waiting, then interrupts.
            double ticks = 0;
            for (int i : new int[] {1, 2, 3, 6, 7}) {
                ticks += Long.parseLong(words[i]);
            }
            return ticks / TICKS;
        } catch (IOException e) {
            throw new IllegalStateException("Linux tells what its processors did.", e);
        }
    }

    private static void add(Path thread, Map<String, Double> sums) throws IOException {
        try {
            String name = Files.readString(thread.resolve("comm")).strip();
            String spent = Files.readString(thread.resolve("schedstat")).split(" ")[0];
            sums.merge(stage(name), Long.parseLong(spent) / NANOS, Double::sum);
        } catch (NoSuchFileException e) {
            // It has ended meanwhile.
        }
    }

    private static String stage(String name) {
        for (Map.Entry<String, String> stage : STAGES) {
            if (name.startsWith(stage.getKey())) {
                return stage.getValue();
            }
        }
        return "other";
    }
}
