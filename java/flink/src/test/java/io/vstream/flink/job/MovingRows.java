package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/**
 * Rows around many centers, of which every update moves one to another center, and so to another
 * shard; and what the answers about them must be.
 */
final class MovingRows {

    private static final int DIMENSION = 64;
    private static final int IDS = 3_000;
    private static final int CENTERS = 48;
    private static final int SAMPLE = 1_000;
    private static final int K = 10;
    private static final int EXACT = -1;
    private static final int AUTO = 0;

    /** Queries of a check, of each kind. */
    private static final int QUERIES = 150;

    private static final double RECALL = 0.9;
    private static final double TOLERANCE = 1e-3;
    private static final long LIMIT_NANOS = Duration.ofSeconds(60).toNanos();

    private final SplittableRandom random;
    private final long seed;
    private final RecordLog log;
    private final Answers answers;
    private final float[][] centers = new float[CENTERS][DIMENSION];
    private final Map<Long, float[]> live = new TreeMap<>();

    /** The last vector that an id had before its present one. */
    private final Map<Long, float[]> before = new HashMap<>();

    private long queries;

    MovingRows(long seed, RecordLog log, Answers answers) {
        this.seed = seed;
        this.random = new SplittableRandom(seed);
        this.log = log;
        this.answers = answers;
        for (float[] center : centers) {
            for (int i = 0; i < DIMENSION; i++) {
                center[i] = (float) random.nextDouble(-1, 1);
            }
        }
    }

    /** Settings of a job for these rows. */
    static JobSettings settings(int parallelism) {
        return JobSettings.fromJson(
                """
                {"parallelism": %d,
                 "collection": {"dimension": %d, "metric": "l2", "element": "f32",
                                "index": "cluster", "seed": 7,
                                "encoder": {"kind": "cells", "cells": 64, "recall-target": 0.95}},
                 "vectors": {"kind": "file", "path": "log"},
                 "queries": {"kind": "file", "path": "log", "k": 10},
                 "training-sample": %d}
                """
                        .formatted(parallelism, DIMENSION, SAMPLE));
    }

    /** Writes every id once. */
    void insert() {
        List<Incoming> writes = new ArrayList<>();
        for (long id = 0; id < IDS; id++) {
            writes.add(write(id));
        }
        log.append(writes);
    }

    /** Moves rows, and deletes one where another would have moved, now and then. */
    void update(int count) {
        List<Incoming> writes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long id = random.nextInt(IDS);
            if (random.nextInt(10) == 0) {
                live.remove(id);
                writes.add(RecordLog.write(id, new float[0]));
            } else {
                writes.add(write(id));
            }
        }
        log.append(writes);
    }

    private Incoming write(long id) {
        float[] vector = near(random.nextInt(CENTERS));
        float[] old = live.put(id, vector);
        if (old != null) {
            before.put(id, old);
        }
        return RecordLog.write(id, vector);
    }

    private float[] near(int center) {
        float[] vector = centers[center].clone();
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] += (float) random.nextDouble(-0.3, 0.3);
        }
        return vector;
    }

    /** Waits until queries visit only some of several partitions. */
    void awaitTemplate(int partitions) throws Exception {
        long end = System.nanoTime() + LIMIT_NANOS;
        int fanOut = 0;
        while (System.nanoTime() < end) {
            List<Incoming> asked = ask(AUTO, List.of(near(0), near(1), near(2), near(3)));
            for (Answer answer : await(asked)) {
                fanOut = answer.fanOut();
                if (fanOut < partitions || partitions == 1) {
                    return;
                }
            }
        }
        throw new AssertionError("Queries visit " + fanOut + " of " + partitions + " partitions.");
    }

    /** Asks until something is so; every query is answered, though maybe in part. */
    void askWhileSomethingHappens(Callable<Boolean> happened) throws Exception {
        long end = System.nanoTime() + LIMIT_NANOS;
        List<Incoming> asked = new ArrayList<>();
        while (!happened.call()) {
            asked.addAll(ask(EXACT, List.of(near(random.nextInt(CENTERS)))));
            asked.addAll(ask(AUTO, List.of(near(random.nextInt(CENTERS)))));
            Thread.sleep(20);
            assertThat(System.nanoTime()).as("it should have happened").isLessThan(end);
        }
        List<Answer> all = await(asked);
        for (int i = 0; i < all.size(); i += 2) {
            // No row is written meanwhile, so an exact answer that claims to be whole is.
            if (!all.get(i).partial()) {
                assertThat(differences(asked.get(i), all.get(i))).isEmpty();
            }
        }
    }

    /**
     * Compares exact answers with the truth, at vectors that rows have and at those that they had,
     * and the recall of others. Writes that are still on their way get some time: answers that took
     * all of it, on a machine that stood still, say nothing about later ones, so it asks once more.
     */
    void check() throws Exception {
        List<Long> ids = new ArrayList<>(before.keySet());
        ids.addAll(live.keySet());
        List<float[]> places = new ArrayList<>();
        for (int i = 0; i < QUERIES; i++) {
            long id = ids.get(random.nextInt(ids.size()));
            places.add(
                    i % 2 == 0 ? live.getOrDefault(id, near(0)) : before.getOrDefault(id, near(1)));
        }
        long end = System.nanoTime() + LIMIT_NANOS / 3;
        List<String> wrong;
        long asking;
        do {
            wrong = new ArrayList<>();
            asking = System.nanoTime();
            List<Incoming> asked = ask(EXACT, places);
            List<Answer> given = await(asked);
            for (int i = 0; i < given.size(); i++) {
                wrong.addAll(differences(asked.get(i), given.get(i)));
            }
        } while (!wrong.isEmpty() && asking < end);
        assertThat(wrong).as("seed %d", seed).isEmpty();
        List<Incoming> asked = ask(AUTO, places);
        List<Answer> given = await(asked);
        double found = 0;
        for (int i = 0; i < given.size(); i++) {
            found += recall(asked.get(i), given.get(i));
        }
        assertThat(found / given.size()).as("recall, seed %d", seed).isGreaterThan(RECALL);
    }

    /** No query of this test is without an answer. */
    void everythingWasAnswered() {
        assertThat(answers.byQuery()).hasSize((int) queries);
    }

    private List<Incoming> ask(int effort, List<float[]> vectors) {
        List<Incoming> asked = new ArrayList<>();
        for (float[] vector : vectors) {
            asked.add(RecordLog.query(queries++, vector, K, effort));
        }
        log.append(asked);
        return asked;
    }

    private List<Answer> await(List<Incoming> asked) throws InterruptedException {
        long end = System.nanoTime() + LIMIT_NANOS;
        List<Answer> all = new ArrayList<>();
        for (Incoming query : asked) {
            Answer answer = answers.byQuery().get(query.id);
            while (answer == null) {
                assertThat(System.nanoTime()).as("query %d is answered", query.id).isLessThan(end);
                Thread.sleep(5);
                answer = answers.byQuery().get(query.id);
            }
            all.add(answer);
        }
        return all;
    }

    private List<String> differences(Incoming query, Answer answer) {
        double[] truth = truth(query);
        List<String> wrong = new ArrayList<>();
        Set<Long> seen = new HashSet<>();
        if (answer.partial() || answer.ids().length != truth.length) {
            wrong.add("query " + query.id + ": " + answer.ids().length + " rows, maybe in part");
        }
        for (int i = 0; i < Math.min(answer.ids().length, truth.length); i++) {
            float[] row = live.get(answer.ids()[i]);
            if (!seen.add(answer.ids()[i]) || row == null) {
                wrong.add("query " + query.id + ": a row twice, or one that was deleted");
            } else if (far(answer.distances()[i], distance(query.vector, row))) {
                wrong.add("query " + query.id + ": a row with an old vector");
            } else if (far(answer.distances()[i], truth[i])) {
                wrong.add("query " + query.id + ": rank " + i + " is not the nearest left");
            }
        }
        return wrong;
    }

    private double recall(Incoming query, Answer answer) {
        double[] truth = truth(query);
        double limit = truth[truth.length - 1] * (1 + TOLERANCE);
        long good = 0;
        for (int i = 0; i < answer.ids().length; i++) {
            float[] row = live.get(answer.ids()[i]);
            good += row != null && distance(query.vector, row) <= limit ? 1 : 0;
        }
        return (double) good / truth.length;
    }

    private double[] truth(Incoming query) {
        double[] all =
                live.values().stream().mapToDouble(row -> distance(query.vector, row)).toArray();
        Arrays.sort(all);
        return Arrays.copyOf(all, Math.min(K, all.length));
    }

    private static boolean far(double a, double b) {
        return Math.abs(a - b) > TOLERANCE * Math.max(1, Math.abs(b));
    }

    private static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            double difference = (double) a[i] - b[i];
            sum += difference * difference;
        }
        return sum;
    }
}
