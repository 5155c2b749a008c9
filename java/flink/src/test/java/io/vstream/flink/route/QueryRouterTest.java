package io.vstream.flink.route;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.Ticket;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.TwoInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class QueryRouterTest {

    private static final int DIMENSION = 2;
    private static final int PARTITIONS = 4;
    private static final String COLLECTION =
            """
            {"dimension": 2, "metric": "l2", "element": "f32", "index": "cluster", "seed": 3,
             "encoder": {"kind": "cells", "cells": 32, "recall-target": 0.5}}
            """;

    private TwoInputStreamOperatorTestHarness<QueryRecord, RouteEvent, QueryCopy> harness;
    private int taken;

    private void open(double auditShare, OperatorSubtaskState state) throws Exception {
        harness =
                new TwoInputStreamOperatorTestHarness<>(
                        new QueryRouter(COLLECTION, DIMENSION, PARTITIONS, auditShare));
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
    void visitsEveryPartitionUntilAllRowsHaveSettled() throws Exception {
        open(0, null);
        assertThat(ask(1, 0)).hasSize(PARTITIONS);
        // A mark may come before its template.
        settle(0);
        template();
        settle(1);
        settle(2);
        pass(2 * QueryRouter.GRACE_MILLIS);
        assertThat(ask(2, 0)).hasSize(PARTITIONS);
        settle(3);
        assertThat(ask(3, 0)).hasSize(PARTITIONS);
        pass(QueryRouter.GRACE_MILLIS);
        List<QueryCopy> copies = ask(4, 0);
        assertThat(copies).hasSizeBetween(1, PARTITIONS - 1);
        assertThat(copies).allMatch(copy -> copy.expected() == copies.size() && copy.inFanOut());
        assertThat(copies)
                .extracting(copy -> ShardKeys.partition(copy.shard(), PARTITIONS))
                .doesNotHaveDuplicates();
    }

    @Test
    void anExactQueryVisitsEveryPartition() throws Exception {
        open(0, null);
        settleAll();
        assertThat(ask(1, 0)).hasSizeLessThan(PARTITIONS);
        assertThat(ask(2, -1)).hasSize(PARTITIONS);
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
        template();
        for (int subtask = 0; subtask < PARTITIONS; subtask++) {
            settle(subtask);
        }
        pass(QueryRouter.GRACE_MILLIS);
    }

    private void template() throws Exception {
        int rows = 400;
        SplittableRandom random = new SplittableRandom(5);
        ByteBuffer sample = BufferLayout.allocate(rows * DIMENSION * Float.BYTES);
        for (int i = 0; i < rows * DIMENSION; i++) {
            sample.putFloat(i * Float.BYTES, (float) random.nextDouble());
        }
        try (NativeRouter router = NativeRouter.train(COLLECTION, sample, rows, 1)) {
            harness.processElement2(new StreamRecord<>(RouteEvent.template(1, router.toBytes())));
        }
    }

    private void settle(int subtask) throws Exception {
        harness.processElement2(new StreamRecord<>(RouteEvent.settled(1, subtask, PARTITIONS)));
    }

    private void pass(long millis) throws Exception {
        harness.setProcessingTime(harness.getProcessingTime() + millis);
    }

    private List<QueryCopy> ask(long number, int effort) throws Exception {
        Ticket ticket = new Ticket(number, number, 10, effort, 0, true);
        harness.processElement1(
                new StreamRecord<>(new QueryRecord(ticket, new float[] {0.1f, 0.1f})));
        List<QueryCopy> all = harness.extractOutputValues();
        List<QueryCopy> fresh = all.subList(taken, all.size());
        taken = all.size();
        return fresh;
    }
}
