package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.COSINE;
import static io.vstream.nativecore.Fixture.DIMENSION;
import static io.vstream.nativecore.Fixture.assertFails;
import static io.vstream.nativecore.Fixture.vector;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Samples of an engine's rows, and templates that are learned from them. */
class NativeLearningTest {

    private static final int ROWS = 2_000;
    private static final int ROW_BYTES = 16 + DIMENSION * Float.BYTES;
    private static final NativeRouter.Limits LIMITS =
            new NativeRouter.Limits(false, 1.1, 1.05, 0.5);

    @Test
    void slicesOfASampleHoldEachRowOnce() {
        try (NativeEngine engine = NativeEngine.create(COSINE)) {
            Fixture.upsert(engine, 0, ROWS, 1);
            Set<Long> seen = new HashSet<>();
            for (int slice = 0; slice < 3; slice++) {
                ByteBuffer rows = ByteBuffer.wrap(engine.sample(1, slice, 3));
                rows.order(ByteOrder.LITTLE_ENDIAN);
                assertThat(rows.capacity() % ROW_BYTES).isZero();
                for (int at = 0; at < rows.capacity(); at += ROW_BYTES) {
                    long id = rows.getLong(at);
                    assertThat(seen.add(id)).isTrue();
                    assertThat(rows.getLong(at + 8)).isEqualTo(Fixture.shard(id));
                }
            }
            assertThat(seen).hasSize(ROWS);
            int tenth = engine.sample(0.1, 0, 1).length / ROW_BYTES;
            assertThat(tenth).isBetween(140, 260);
            assertFails(Kind.INVALID, "slice", () -> engine.sample(1, 3, 3));
            assertFails(Kind.INVALID, "share", () -> engine.sample(2, 0, 1));
        }
    }

    @Test
    void aLargeCellIsSplitAndItsOldRowsStayWhereTheyAre() {
        ByteBuffer sample = BufferLayout.allocate(ROWS * DIMENSION * Float.BYTES + Long.BYTES);
        for (int row = 0; row < ROWS; row++) {
            sample.asFloatBuffer().put(row * DIMENSION, vector(row));
        }
        try (NativeRouter first = NativeRouter.train(COSINE, sample, ROWS, 1)) {
            byte[] rows = drifted(first);
            ByteBuffer loads = BufferLayout.allocate(MovedRanges.BUCKETS * 16);
            ByteBuffer read = ByteBuffer.wrap(rows).order(ByteOrder.LITTLE_ENDIAN);
            for (int at = 0; at < rows.length; at += ROW_BYTES) {
                int bucket = MovedRanges.bucket(read.getLong(at + 8)) * 16;
                loads.putDouble(bucket, loads.getDouble(bucket) + 1);
            }
            byte[] next = first.retrain(COSINE, loads, rows, 1, 4, LIMITS);
            try (NativeRouter second = NativeRouter.fromBytes(next)) {
                assertThat(second.epoch()).isEqualTo(2);
                assertThat(second.cells()).isGreaterThan(first.cells());
                MovedRanges moves = second.movesSince(first);
                for (int at = 0; at < rows.length; at += ROW_BYTES) {
                    long code = read.getLong(at + 8);
                    int range = moves.rangeOf(code);
                    assertThat(second.shardOf(code))
                            .isEqualTo(range < 0 ? first.shardOf(code) : moves.to(range));
                }
            }
            byte[] damaged = new byte[rows.length - 1];
            assertFails(
                    Kind.INVALID,
                    "sampled rows",
                    () -> first.retrain(COSINE, loads, damaged, 1, 4, LIMITS));
            assertFails(
                    Kind.INVALID,
                    "send more",
                    () -> first.retrain(COSINE, loads, new byte[0], 1, 4, LIMITS));
            assertFails(
                    Kind.INVALID,
                    "cells",
                    () -> first.retrain(Fixture.L2, loads, rows, 1, 4, LIMITS));
        }
    }

    /** Rows as engines give them: those of the sample and as many about one place. */
    private static byte[] drifted(NativeRouter router) {
        Random random = new Random(5);
        ByteBuffer rows = ByteBuffer.allocate(2 * ROWS * ROW_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer placement = BufferLayout.allocate(BufferLayout.PLACEMENTS_MAX * 16);
        for (int row = 0; row < 2 * ROWS; row++) {
            float[] vector = vector(row < ROWS ? row : 1);
            for (int i = 0; row >= ROWS && i < DIMENSION; i++) {
                vector[i] += (float) random.nextGaussian() / 5;
            }
            router.place(row, Fixture.direct(vector), placement);
            rows.putLong(row).putLong(placement.getLong(0));
            for (float x : vector) {
                rows.putFloat(x);
            }
        }
        return rows.array();
    }
}
