package io.vstream.flink.route;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.Step;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.Ticket;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import io.vstream.nativecore.RowFields;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.TwoInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class RouteOperatorTest {

    private static final ShardKeys KEYS = ShardKeys.of(ShardKeys.USUAL);

    private static final int DIMENSION = 2;
    private static final int PARTITIONS = 4;
    private static final String COLLECTION =
            """
            {"dimension": 2, "metric": "l2", "element": "f32", "index": "cluster", "seed": 3,
             "encoder": {"kind": "cells", "cells": 32, "recall-target": 0.5}}
            """;

    private TwoInputStreamOperatorTestHarness<QueryRecord, Command, QueryCopy> harness;
    private int taken;

    private void open(double auditShare, OperatorSubtaskState state) throws Exception {
        harness =
                new TwoInputStreamOperatorTestHarness<>(
                        new RouteOperator(
                                COLLECTION, DIMENSION, task -> PARTITIONS, auditShare, true));
        harness.setup(QueryCopy.TYPE.createSerializer(null));
        if (state != null) {
            harness.initializeState(state);
        }
        harness.open();
        taken = 0;
    }

    private void open(int parallelism, int subtask, OperatorSubtaskState state) throws Exception {
        harness =
                new TwoInputStreamOperatorTestHarness<>(
                        new RouteOperator(COLLECTION, DIMENSION, task -> PARTITIONS, 0, true),
                        KEYS.shards(),
                        parallelism,
                        subtask);
        harness.setup(QueryCopy.TYPE.createSerializer(null));
        if (state != null) {
            harness.initializeState(state);
        }
        harness.open();
        taken = 0;
    }

    @AfterEach
    void close() throws Exception {
        harness.close();
    }

    @Test
    void visitsEveryPartitionUntilTheFirstTemplateSettles() throws Exception {
        open(0, null);
        assertThat(ask(1, 0)).hasSize(PARTITIONS);
        byte[] template = template(1);
        for (Step step : List.of(Step.ANNOUNCE, Step.SWITCH, Step.ADOPT)) {
            command(1, step, template);
            assertThat(ask(2, 0)).hasSize(PARTITIONS);
        }
        command(1, Step.SETTLE, template);
        List<QueryCopy> copies = ask(4, 0);
        assertThat(copies).hasSizeBetween(1, PARTITIONS - 1);
        assertThat(copies).allMatch(copy -> copy.expected() == copies.size() && copy.inFanOut());
        assertThat(partitions(copies)).doesNotHaveDuplicates();
    }

    @Test
    void visitsTheOwnersOfBothTemplatesWhileRangesChangeHands() throws Exception {
        open(0, null);
        settleAll();
        List<List<Integer>> before = visits();
        // Another sample: other cells, so that the two templates name different partitions.
        byte[] template = trained(77, 2);
        command(2, Step.ANNOUNCE, template);
        List<List<Integer>> between = visits();
        OperatorSubtaskState state = harness.snapshot(1, 1);
        command(2, Step.SETTLE, template);
        List<List<Integer>> after = visits();
        for (int i = 0; i < between.size(); i++) {
            assertThat(new TreeSet<>(between.get(i))).containsExactlyElementsOf(between.get(i));
            TreeSet<Integer> both = new TreeSet<>(before.get(i));
            both.addAll(after.get(i));
            assertThat(between.get(i)).containsExactlyElementsOf(both);
        }
        assertThat(before).isNotEqualTo(after);
        // The end of the hand-over, said again after a restore in its middle.
        harness.close();
        open(0, state);
        assertThat(visits()).isEqualTo(between);
        command(2, Step.SWITCH, template);
        assertThat(visits()).isEqualTo(between);
        command(2, Step.SETTLE, template);
        assertThat(visits()).isEqualTo(after);
    }

    @Test
    void everyCommandIsMarkedToEveryPartition() throws Exception {
        open(0, null);
        harness.processElement2(
                new StreamRecord<>(new Command(5, 1, Step.ANNOUNCE, template(1), new byte[24])));
        List<QueryCopy> acks = harness.extractOutputValues();
        assertThat(partitions(acks)).containsExactly(0, 1, 2, 3);
        for (QueryCopy copy : acks) {
            assertThat(copy.ack().run()).isEqualTo(5);
            assertThat(copy.ack().step()).isEqualTo(Step.ANNOUNCE);
            assertThat(copy.ack().moves().count()).isEqualTo(1);
        }
    }

    @Test
    void anExactQueryVisitsEveryPartition() throws Exception {
        open(0, null);
        settleAll();
        assertThat(ask(1, 0)).hasSizeLessThan(PARTITIONS);
        assertThat(ask(2, -1)).hasSize(PARTITIONS);
    }

    @Test
    void aQueryWithAFilterVisitsEveryPartition() throws Exception {
        open(0, null);
        settleAll();
        Ticket ticket = new Ticket(1, 1, 10, 0, 0, true);
        Asked asked = new Asked(new byte[] {1}, RowFields.NO_COLUMNS, false, false, Float.NaN);
        harness.processElement1(
                new StreamRecord<>(new QueryRecord(ticket, new float[] {0.1f, 0.1f}, asked)));
        List<QueryCopy> all = harness.extractOutputValues();
        assertThat(partitions(all.subList(taken, all.size()))).containsExactly(0, 1, 2, 3);
    }

    @Test
    void reliesOnARestoredTemplateAtOnce() throws Exception {
        open(0, null);
        settleAll();
        int visited = ask(1, 0).size();
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(0, state);
        assertThat(ask(1, 0)).hasSize(visited);
    }

    @Test
    void oneSubtaskWritesTheTemplatesOfAll() throws Exception {
        List<OperatorSubtaskState> states = new ArrayList<>();
        for (int subtask = 0; subtask < 2; subtask++) {
            open(2, subtask, null);
            settleAll();
            command(2, Step.ANNOUNCE, trained(77, 2));
            states.add(harness.snapshot(1, 1));
            harness.close();
        }
        long both = template(1).length + template(2).length;
        assertThat(states.get(0).getStateSize()).isGreaterThan(both);
        assertThat(states.get(1).getStateSize()).isLessThan(both / 10);
        OperatorSubtaskState all =
                AbstractStreamOperatorTestHarness.repackageState(
                        states.toArray(new OperatorSubtaskState[0]));
        for (int subtask = 0; subtask < 3; subtask++) {
            open(
                    3,
                    subtask,
                    AbstractStreamOperatorTestHarness.repartitionOperatorState(
                            all, KEYS.shards(), 2, 3, subtask));
            List<List<Integer>> between = visits();
            command(2, Step.SETTLE, null);
            assertThat(visits()).isNotEqualTo(between);
            assertThat(ask(1, 0)).hasSizeLessThan(PARTITIONS);
            if (subtask < 2) {
                harness.close();
            }
        }
    }

    @Test
    void queriesReachPartitionsBeyond128() throws Exception {
        int partitions = 300;
        String collection = COLLECTION.replace("\"seed\": 3", "\"seed\": 3, \"shards\": 1024");
        ShardKeys keys = ShardKeys.ofCollection(collection);
        harness =
                new TwoInputStreamOperatorTestHarness<>(
                        new RouteOperator(collection, DIMENSION, task -> partitions, 0, true));
        harness.setup(QueryCopy.TYPE.createSerializer(null));
        harness.open();
        List<Integer> all = IntStream.range(0, partitions).boxed().toList();
        assertThat(ask(1, 0).stream().map(copy -> keys.partition(copy.shard(), partitions)))
                .containsExactlyElementsOf(all);
        byte[] template = trained(collection, 5, 1);
        for (Step step : Step.values()) {
            command(1, step, template);
        }
        Set<Integer> visited = new HashSet<>();
        for (int i = 0; i < 100; i++) {
            List<QueryCopy> copies = ask(i, 0, i / 10 * 0.1f, i % 10 * 0.1f);
            assertThat(copies)
                    .hasSizeBetween(1, partitions - 1)
                    .allMatch(copy -> copy.expected() == copies.size());
            copies.forEach(copy -> visited.add(keys.partition(copy.shard(), partitions)));
        }
        assertThat(visited).anyMatch(partition -> partition > 255);
    }

    @Test
    void anAuditGoesEverywhereBesideTheQuery() throws Exception {
        open(1, null);
        settleAll();
        List<QueryCopy> copies = ask(1, 0);
        List<QueryCopy> own = copies.stream().filter(copy -> !copy.ticket().audit()).toList();
        List<QueryCopy> audit = copies.stream().filter(copy -> copy.ticket().audit()).toList();
        assertThat(own).hasSizeLessThan(PARTITIONS);
        assertThat(audit).hasSize(PARTITIONS).allMatch(copy -> copy.expected() == PARTITIONS);
        assertThat(audit.stream().filter(QueryCopy::inFanOut).map(QueryCopy::shard))
                .containsExactlyElementsOf(own.stream().map(QueryCopy::shard).toList());
        // What is exact already needs no audit.
        assertThat(ask(2, -1)).noneMatch(copy -> copy.ticket().audit());
    }

    @Test
    void auditsTheShareThatWasAskedFor() throws Exception {
        open(0.05, null);
        int audits = 0;
        for (int number = 0; number < 10_000; number++) {
            audits += ask(number, 0).size() > PARTITIONS ? 1 : 0;
        }
        assertThat(audits).isBetween(450, 550);
    }

    private void settleAll() throws Exception {
        byte[] template = template(1);
        for (Step step : Step.values()) {
            command(1, step, template);
        }
    }

    private void command(long epoch, Step step, byte[] template) throws Exception {
        byte[] bytes = step == Step.ANNOUNCE ? template : new byte[0];
        harness.processElement2(
                new StreamRecord<>(new Command(1, epoch, step, bytes, new byte[0])));
        taken = harness.extractOutputValues().size();
    }

    private byte[] template(long epoch) {
        return trained(5, epoch);
    }

    private byte[] trained(long seed, long epoch) {
        return trained(COLLECTION, seed, epoch);
    }

    private byte[] trained(String collection, long seed, long epoch) {
        int rows = 400;
        SplittableRandom random = new SplittableRandom(seed);
        ByteBuffer sample = BufferLayout.allocate(rows * DIMENSION * Float.BYTES);
        for (int i = 0; i < rows * DIMENSION; i++) {
            sample.putFloat(i * Float.BYTES, (float) random.nextDouble());
        }
        try (NativeRouter router = NativeRouter.train(collection, sample, rows, epoch)) {
            return router.toBytes();
        }
    }

    private static List<Integer> partitions(List<QueryCopy> copies) {
        return copies.stream().map(copy -> KEYS.partition(copy.shard(), PARTITIONS)).toList();
    }

    /** Partitions that queries at twenty places visit. */
    private List<List<Integer>> visits() throws Exception {
        List<List<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            all.add(partitions(ask(i, 0, i * 0.05f, 1 - i * 0.05f)));
        }
        return all;
    }

    private List<QueryCopy> ask(long number, int effort) throws Exception {
        return ask(number, effort, 0.1f, 0.1f);
    }

    private List<QueryCopy> ask(long number, int effort, float... vector) throws Exception {
        Ticket ticket = new Ticket(number, number, 10, effort, 0, true);
        harness.processElement1(new StreamRecord<>(new QueryRecord(ticket, vector)));
        List<QueryCopy> all = harness.extractOutputValues();
        List<QueryCopy> fresh = all.subList(taken, all.size());
        taken = all.size();
        return fresh;
    }
}
