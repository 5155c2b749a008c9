package io.vstream.flink.bench;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What a run of {@link JobBench} measures, from words like {@code --rates 8000,10000}.
 *
 * @param system {@code vstream}, or a peer that a job of the same shape calls
 * @param json true for JSON in the topics, false for little-endian floats
 * @param exactlyOnce true to commit answers with checkpoints
 * @param checkpointMillis between two checkpoints, 0 for none
 * @param rates records per second of the steps, rising
 * @param warmUp records per second before the first step
 * @param seconds of a step
 * @param preload rows that are there before the first step
 * @param recallTarget of ours
 * @param effort of a peer's searches
 * @param batch writes that a peer gets in one call at most
 * @param atRest queries at the end, whose recall is taken
 * @param patienceSeconds for what is under way after a step
 * @param until true to go on until a step is not sustained, with rates a tenth apart
 * @param server of a peer, {@code host:port}, or an empty text
 * @param serverPid process of the peer's server, or 0
 * @param data folder with {@code base.fbin} and {@code query.fbin}
 * @param folder for everything the run writes
 * @param jars class path of the job's process
 */
record Options(
        String system,
        boolean json,
        boolean exactlyOnce,
        long checkpointMillis,
        List<Integer> rates,
        int warmUp,
        int seconds,
        int preload,
        double recallTarget,
        int effort,
        int batch,
        int atRest,
        int patienceSeconds,
        boolean until,
        String server,
        long serverPid,
        Path data,
        Path folder,
        String jars) {

    private static final Set<String> KEYS =
            Set.of(
                    "system",
                    "format",
                    "delivery",
                    "checkpoint-ms",
                    "rates",
                    "warm-up",
                    "seconds",
                    "preload",
                    "recall-target",
                    "effort",
                    "batch",
                    "at-rest",
                    "patience",
                    "until",
                    "server",
                    "server-pid",
                    "data",
                    "folder",
                    "jars");

    /** Reads the words of a command line. */
    static Options of(String[] words) {
        Map<String, String> given = new TreeMap<>();
        for (int i = 0; i + 1 < words.length; i += 2) {
            String key = words[i].replaceFirst("^--", "");
            if (!KEYS.contains(key)) {
                throw new IllegalArgumentException(
                        "Unknown option " + words[i] + "; choose from " + KEYS + ".");
            }
            given.put(key, words[i + 1]);
        }
        boolean exactly = given.getOrDefault("delivery", "at-least-once").equals("exactly-once");
        List<Integer> rates =
                Arrays.stream(given.getOrDefault("rates", "10000").split(","))
                        .map(Integer::valueOf)
                        .toList();
        return new Options(
                given.getOrDefault("system", "vstream"),
                given.getOrDefault("format", "raw").equals("json"),
                exactly,
                Long.parseLong(given.getOrDefault("checkpoint-ms", exactly ? "1000" : "0")),
                rates,
                Integer.parseInt(given.getOrDefault("warm-up", rates.get(0).toString())),
                Integer.parseInt(given.getOrDefault("seconds", "15")),
                Integer.parseInt(given.getOrDefault("preload", "150000")),
                Double.parseDouble(given.getOrDefault("recall-target", "0.95")),
                Integer.parseInt(given.getOrDefault("effort", "100")),
                Integer.parseInt(given.getOrDefault("batch", "100")),
                Integer.parseInt(given.getOrDefault("at-rest", "300")),
                Integer.parseInt(given.getOrDefault("patience", "150")),
                Boolean.parseBoolean(given.getOrDefault("until", "true")),
                given.getOrDefault("server", ""),
                Long.parseLong(given.getOrDefault("server-pid", "0")),
                Path.of(given.getOrDefault("data", "data/glove100")),
                Path.of(given.getOrDefault("folder", "run/job")),
                given.getOrDefault("jars", System.getProperty("java.class.path")));
    }
}
