package io.vstream.flink.bench;

import io.vstream.flink.job.JobRunner;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The job in a process of its own: one task manager with two slots, as `vstream run` starts it. */
final class JobProcess implements AutoCloseable {

    private static final int SLOTS = 2;

    private final Process process;
    private final Path log;

    JobProcess(String brokers, Options options) throws IOException {
        Path file = options.folder().resolve("job.json");
        Files.writeString(file, json(brokers, options));
        log = options.folder().resolve("job.log");
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of(
                        "-Xms2g",
                        "-Xmx2g",
                        "-XX:+UseZGC",
                        "-XX:MaxDirectMemorySize=1g",
                        "-XX:-UsePerfData",
                        "-cp",
                        options.jars()));
        if (options.system().equals("vstream")) {
            command.addAll(List.of(JobRunner.class.getName(), "--job", file.toString()));
        } else {
            command.addAll(
                    List.of(
                            PeerJob.class.getName(),
                            file.toString(),
                            options.system(),
                            options.server(),
                            Integer.toString(options.batch()),
                            Integer.toString(options.preload()),
                            Integer.toString(options.effort())));
        }
        process =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(log.toFile())
                        .start();
    }

    /** Its number. */
    long pid() {
        return process.pid();
    }

    /** Fails with the end of its log if it has ended. */
    void check() throws IOException {
        if (!process.isAlive()) {
            List<String> lines = Files.readAllLines(log);
            throw new IllegalStateException(
                    "The job has ended: "
                            + String.join(
                                    "\n",
                                    lines.subList(Math.max(0, lines.size() - 30), lines.size())));
        }
    }

    @Override
    public void close() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    private static String json(String brokers, Options options) {
        String checkpoint =
                options.checkpointMillis() == 0
                        ? ""
                        : ", \"checkpoint\": {\"interval\": "
                                + options.checkpointMillis()
                                + ", \"timeout\": 120000, \"path\": \""
                                + options.folder().resolve("checkpoints").toAbsolutePath()
                                + "\"}";
        return """
        {"name": "bench", "parallelism": @P,
         "collection": {"dimension": 100, "metric": "cosine", "element": "f32",
                        "index": "cluster", "seed": 42, "recall-target": @R,
                        "encoder": {"kind": "cells", "recall-target": 0.98}},
         "vectors": {"kind": "kafka", "brokers": "@B", "topic": "vectors", "group": "bench",
                     "format": "@F", "start": "earliest", "out-of-orderness": 0,
                     "idle-after": 1000, "properties": {}},
         "queries": {"kind": "kafka", "brokers": "@B", "topic": "queries", "group": "bench",
                     "format": "@F", "start": "earliest", "k": 10, "properties": {}},
         "results": {"kind": "kafka", "brokers": "@B", "topic": "answers",
                     "delivery": "@D", "transactional-id-prefix": "bench",
                     "transaction-timeout": 600000, "properties": {}},
         "training-sample": 20000, "merge-deadline": 60000, "audit-share": 0.0@C}
        """
                .replace("@P", Integer.toString(SLOTS))
                .replace("@R", Double.toString(options.recallTarget()))
                .replace("@B", brokers)
                .replace("@F", options.json() ? "json" : "raw")
                .replace("@D", options.exactlyOnce() ? "exactly-once" : "at-least-once")
                .replace("@C", checkpoint);
    }
}
