package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.route.ShardKeys;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * Streams of a minute against what the control task plans with, without a job around it: loads are
 * reported twice a second with noise, looked at every second, and a plan takes two seconds from the
 * look to its rows. A second is 1,800 inserts and 600 deletes of any rows; nine tenths of the work
 * are searches.
 */
class DriftTest {

    private static final ShardKeys KEYS = ShardKeys.of(ShardKeys.USUAL);

    private static final int DIMENSION = 8;
    private static final int PARTITIONS = 4;
    private static final int CLUSTERS = 64;
    private static final int PRELOAD = 30_000;
    private static final int SAMPLE = 10_000;
    private static final int SECONDS = 60;
    private static final int TICKS = 10;
    private static final int INSERTS = 180;
    private static final int DELETES = 60;
    private static final int REPORT_TICKS = 5;
    private static final int PLAN_TICKS = 20;
    private static final int WINDOW_TICKS = 25;
    private static final double WRITES = 0.13;
    private static final double DELETE_WORK = 0.3;
    private static final double NOISE = 0.15;
    private static final double REPORT_MICROS = 1e6;
    private static final long TICK_NANOS = 100_000_000L;
    private static final String COLLECTION =
            """
            {"dimension": 8, "metric": "l2", "element": "f32", "index": "cluster", "seed": 3,
             "encoder": {"kind": "cells", "cells": 512, "recall-target": 0.95}}
            """;

    private final Random random = new Random(5);
    private final float[][] centers = new float[CLUSTERS][DIMENSION];
    private final int[] rows = new int[MovedRanges.BUCKETS];
    private final List<Integer> live = new ArrayList<>();
    private final double[] queries = new double[MovedRanges.BUCKETS];
    private final double[] writes = new double[MovedRanges.BUCKETS];
    private final int[] owner = new int[MovedRanges.BUCKETS];
    private final List<Double> windows = new ArrayList<>();
    private final ByteBuffer vector = BufferLayout.allocate(BufferLayout.vectorBytes(DIMENSION));
    private final ByteBuffer placement =
            BufferLayout.allocate(BufferLayout.PLACEMENTS_MAX * BufferLayout.PLACEMENT_BYTES);
    private double[] written = new double[PARTITIONS];
    private int plans;
    private long moved;

    @Test
    void partitionsStayEvenWhileTheStreamGoesFromClusterToCluster() {
        run(true);
        List<Double> late = windows.subList(windows.size() / 2, windows.size());
        assertThat(late).allMatch(uneven -> uneven < 1.4);
        assertThat(late.stream().mapToDouble(uneven -> uneven).average().orElseThrow())
                .isLessThan(1.25);
        // Fewer than came.
        assertThat(moved).isLessThan(SECONDS * TICKS * INSERTS * 3 / 4);
    }

    @Test
    void aSteadyStreamMovesNothing() {
        run(false);
        assertThat(plans).isZero();
        assertThat(windows).allMatch(uneven -> uneven < 1.1);
    }

    private void run(boolean drifts) {
        chain();
        NativeRouter template = train();
        for (int row = 0; row < PRELOAD; row++) {
            int bucket = bucketOf(template, random.nextInt(CLUSTERS));
            insert(bucket);
            queries[bucket]++;
        }
        own(template);
        CellLoads loads = new CellLoads(PARTITIONS);
        NativeRouter next = null;
        int begun = 0;
        for (int tick = 0; tick < SECONDS * TICKS; tick++) {
            int cluster = tick * CLUSTERS / (SECONDS * TICKS);
            for (int i = 0; i < INSERTS; i++) {
                int bucket = bucketOf(template, drifts ? cluster : random.nextInt(CLUSTERS));
                insert(bucket);
                writes[bucket]++;
                written[owner[bucket]]++;
            }
            for (int i = 0; i < DELETES; i++) {
                delete();
            }
            if (next != null && tick == begun + PLAN_TICKS) {
                template.close();
                template = next;
                next = null;
                own(template);
                loads.forget();
            }
            if (tick % REPORT_TICKS == 0) {
                report(loads);
            }
            if (next == null && tick % TICKS == 0 && loads.complete()) {
                loads.look(tick * TICK_NANOS);
                next = plan(template, loads);
                begun = tick;
            }
            if (tick % WINDOW_TICKS == WINDOW_TICKS - 1) {
                windows.add(uneven());
                written = new double[PARTITIONS];
            }
        }
        template.close();
        if (next != null) {
            next.close();
        }
    }

    /** Clusters, each followed by the nearest one. */
    private void chain() {
        for (float[] center : centers) {
            for (int i = 0; i < DIMENSION; i++) {
                center[i] = (float) random.nextGaussian();
            }
        }
        for (int at = 1; at < CLUSTERS; at++) {
            int nearest = at;
            for (int other = at; other < CLUSTERS; other++) {
                if (distance(centers[at - 1], centers[other])
                        < distance(centers[at - 1], centers[nearest])) {
                    nearest = other;
                }
            }
            float[] swap = centers[at];
            centers[at] = centers[nearest];
            centers[nearest] = swap;
        }
    }

    private static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < DIMENSION; i++) {
            sum += (a[i] - b[i]) * (a[i] - b[i]);
        }
        return sum;
    }

    private float[] row(int cluster) {
        float[] row = centers[cluster].clone();
        for (int i = 0; i < DIMENSION; i++) {
            row[i] += (float) random.nextGaussian() / 2;
        }
        return row;
    }

    private NativeRouter train() {
        ByteBuffer sample = BufferLayout.allocate(SAMPLE * DIMENSION * Float.BYTES + Long.BYTES);
        for (int at = 0; at < SAMPLE; at++) {
            sample.asFloatBuffer().put(at * DIMENSION, row(random.nextInt(CLUSTERS)));
        }
        return NativeRouter.train(COLLECTION, sample, SAMPLE, 1);
    }

    private int bucketOf(NativeRouter template, int cluster) {
        BufferLayout.putVector(vector, 0, row(cluster));
        template.place(0, vector, placement);
        return MovedRanges.bucket(placement.getLong(0));
    }

    private void insert(int bucket) {
        rows[bucket]++;
        live.add(bucket);
    }

    private void delete() {
        int at = random.nextInt(live.size());
        int bucket = live.set(at, live.get(live.size() - 1));
        live.remove(live.size() - 1);
        rows[bucket]--;
        written[owner[bucket]] += DELETE_WORK;
    }

    private void own(NativeRouter template) {
        for (int bucket = 0; bucket < owner.length; bucket++) {
            long code = (long) bucket << Long.SIZE - Integer.numberOfTrailingZeros(owner.length);
            int now = KEYS.partition(template.shardOf(code), PARTITIONS);
            moved += now == owner[bucket] ? 0 : rows[bucket];
            owner[bucket] = now;
        }
        moved = template.epoch() == 1 ? 0 : moved;
    }

    private void report(CellLoads loads) {
        double all = Math.max(1, Arrays.stream(writes).sum());
        for (int partition = 0; partition < PARTITIONS; partition++) {
            double noise = Math.max(0.2, 1 + NOISE * random.nextGaussian());
            short[] buckets = new short[owner.length];
            int[] held = new int[owner.length];
            int[] micros = new int[owner.length];
            int count = 0;
            for (int bucket = 0; bucket < owner.length; bucket++) {
                if (owner[bucket] == partition && rows[bucket] + writes[bucket] > 0) {
                    double searched =
                            (double) rows[bucket] / live.size() + queries[bucket] / PRELOAD;
                    double work = (1 - WRITES) / 2 * searched + WRITES * writes[bucket] / all;
                    buckets[count] = (short) bucket;
                    held[count] = rows[bucket];
                    micros[count++] = (int) Math.round(REPORT_MICROS * noise * work);
                }
            }
            loads.take(
                    new PartitionReport(
                            partition,
                            PARTITIONS,
                            1,
                            0,
                            Arrays.copyOf(buckets, count),
                            Arrays.copyOf(held, count),
                            Arrays.copyOf(micros, count),
                            null));
        }
        Arrays.fill(writes, 0);
    }

    private NativeRouter plan(NativeRouter template, CellLoads loads) {
        RebalanceSettings settings = new RebalanceSettings("cells", 1_000, 1.1, null);
        byte[] better = template.rebalance(loads.sum(), PARTITIONS, settings.limits());
        if (better.length == 0) {
            return null;
        }
        plans++;
        return NativeRouter.fromBytes(better);
    }

    /** Load of the fullest partition over the mean: rows and work weigh the same. */
    private double uneven() {
        double[] held = new double[PARTITIONS];
        for (int bucket = 0; bucket < owner.length; bucket++) {
            held[owner[bucket]] += rows[bucket];
        }
        double all = Math.max(1, Arrays.stream(written).sum());
        double worst = 0;
        for (int partition = 0; partition < PARTITIONS; partition++) {
            double share = held[partition] / live.size();
            double work =
                    (1 - WRITES) / 2 * (share + 1.0 / PARTITIONS)
                            + WRITES * written[partition] / all;
            worst = Math.max(worst, (share + work) * PARTITIONS / 2);
        }
        return worst;
    }
}
