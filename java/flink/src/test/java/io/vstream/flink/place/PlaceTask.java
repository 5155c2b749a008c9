package io.vstream.flink.place;

import io.vstream.flink.fault.Fault;
import io.vstream.flink.handover.Command;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.row.Schema;
import java.util.EnumSet;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness;

/** One subtask of place. */
final class PlaceTask implements AutoCloseable {

    private static final ShardKeys KEYS = ShardKeys.of(ShardKeys.USUAL);

    static final int DIMENSION = 4;
    static final String COLLECTION =
            """
            {"dimension": 4, "metric": "l2", "element": "f32", "index": "cluster", "seed": 3,
             "encoder": {"kind": "cells", "cells": 8, "recall-target": 0.9}}
            """;

    final KeyedTwoInputStreamOperatorTestHarness<Long, VectorRecord, Command, Write> harness;

    PlaceTask(int parallelism, int subtask, List<OperatorSubtaskState> restored) throws Exception {
        this(COLLECTION, 0, parallelism, subtask, restored);
    }

    /**
     * @param lifeMillis time to live of rows, 0 for ever
     * @param restored states of all subtasks, or none
     */
    PlaceTask(
            String collection,
            long lifeMillis,
            int parallelism,
            int subtask,
            List<OperatorSubtaskState> restored)
            throws Exception {
        int shards = ShardKeys.ofCollection(collection).shards();
        harness =
                new KeyedTwoInputStreamOperatorTestHarness<>(
                        new PlaceOperator(
                                collection,
                                DIMENSION,
                                schema(collection),
                                task -> parallelism,
                                lifeMillis,
                                EnumSet.noneOf(Fault.class)),
                        record -> record.id,
                        null,
                        Types.LONG,
                        shards,
                        parallelism,
                        subtask);
        harness.setup(Write.TYPE.createSerializer(null));
        if (!restored.isEmpty()) {
            OperatorSubtaskState all =
                    AbstractStreamOperatorTestHarness.repackageState(
                            restored.toArray(new OperatorSubtaskState[0]));
            harness.initializeState(
                    AbstractStreamOperatorTestHarness.repartitionOperatorState(
                            all, shards, restored.size(), parallelism, subtask));
        }
        harness.open();
    }

    private static Schema schema(String collection) throws Exception {
        return Schema.fromJson(new ObjectMapper().readTree(collection));
    }

    void put(VectorRecord record) throws Exception {
        harness.processElement1(new StreamRecord<>(record));
    }

    void upsert(long id, float[] vector) throws Exception {
        VectorRecord record = new VectorRecord();
        record.upsert(id, vector);
        harness.processElement1(new StreamRecord<>(record));
    }

    void upsert(long id, float[] vector, long timestamp) throws Exception {
        VectorRecord record = new VectorRecord();
        record.upsert(id, vector);
        harness.processElement1(new StreamRecord<>(record, timestamp));
    }

    void delete(long id) throws Exception {
        VectorRecord record = new VectorRecord();
        record.delete(id);
        harness.processElement1(new StreamRecord<>(record));
    }

    void offsets(long... offsets) throws Exception {
        VectorRecord record = new VectorRecord();
        record.offsets(KEYS.idIn(1, 2), offsets);
        harness.processElement1(new StreamRecord<>(record));
    }

    List<Write> writes() {
        return harness.extractOutputValues();
    }

    @Override
    public void close() throws Exception {
        harness.close();
    }
}
