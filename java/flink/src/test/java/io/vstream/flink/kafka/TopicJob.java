package io.vstream.flink.kafka;

import java.nio.file.Path;

/** The job between the topics of {@link Traffic}, as {@code vstream check} would write it. */
public final class TopicJob {

    private TopicJob() {}

    /**
     * A normalised job for {@link Shape#SMALL}.
     *
     * @param brokers of all topics
     * @param raw true if the vectors are raw floats, false for JSON
     * @param folder for checkpoints
     */
    public static String json(String brokers, int parallelism, boolean raw, Path folder) {
        return json(Shape.SMALL, brokers, parallelism, raw, folder);
    }

    /** The same job for rows with texts as ids, attributes and payloads. */
    public static String carrying(String json) {
        return json.replace(
                "\"seed\": 7,",
                "\"seed\": 7, \"id\": \"string\", \"attributes\": {\"lot\": \"i64\"},");
    }

    /** A normalised job for traffic of a shape; else as above. */
    public static String json(
            Shape shape, String brokers, int parallelism, boolean raw, Path folder) {
        return """
        {"name": "topics", "parallelism": @P,
         "collection": {"dimension": @D, "metric": "l2", "element": "f32", "index": "cluster",
                        "seed": 7, "memory": @M, "recall-target": @T,
                        "encoder": {"kind": "cells", "cells": @N, "recall-target": 0.98}},
         "vectors": {"kind": "kafka", "brokers": "@B", "topic": "vectors", "group": "vstream",
                     "format": "@F", "start": "earliest", "out-of-orderness": 0,
                     "idle-after": 1000@L, "properties": {}},
         "queries": {"kind": "kafka", "brokers": "@B", "topic": "queries", "group": "vstream",
                     "format": "json", "start": "earliest", "k": 10, "properties": {}},
         "results": {"kind": "kafka", "brokers": "@B", "topic": "answers",
                     "delivery": "exactly-once", "transactional-id-prefix": "vstream-test",
                     "transaction-timeout": 600000,
                     "properties": {"delivery.timeout.ms": 300000, "max.block.ms": 300000}},
         "training-sample": @S, "merge-deadline": 120000, "audit-share": 0.0,
         "checkpoint": {"interval": 500, "timeout": 60000, "path": "@C"}}
        """
                .replace("@P", Integer.toString(parallelism))
                .replace("@D", Integer.toString(shape.dimension()))
                .replace("@M", shape.memory() == 0 ? "null" : Long.toString(shape.memory()))
                .replace("@T", Double.toString(Shape.TARGET))
                .replace("@N", Integer.toString(shape.cells()))
                .replace("@S", Integer.toString(shape.sample()))
                .replace(
                        "@L",
                        shape.lifeMillis() == 0 ? "" : ", \"time-to-live\": " + shape.lifeMillis())
                .replace("@B", brokers)
                .replace("@F", raw ? "raw" : "json")
                .replace("@C", folder.resolve("checkpoints").toString());
    }
}
