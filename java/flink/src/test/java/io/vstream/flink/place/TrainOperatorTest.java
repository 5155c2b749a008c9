package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.handover.Command;
import io.vstream.nativecore.NativeRouter;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Training beside the task: records and checkpoints pass meanwhile. */
@Timeout(60)
class TrainOperatorTest {

    private static final int DIMENSION = 64;
    private static final int SAMPLE = 2_000;
    private static final String COLLECTION =
            """
            {"dimension": 64, "metric": "l2", "element": "f32", "index": "cluster", "seed": 3,
             "encoder": {"kind": "cells", "cells": 32, "recall-target": 0.9}}
            """;

    private OneInputStreamOperatorTestHarness<float[], Command> task;

    @Test
    void aCheckpointDuringTheTrainingHoldsTheSample() throws Exception {
        open(null);
        fill(SAMPLE);
        // The result is a mail, and nobody has read the mail yet.
        OperatorSubtaskState during = task.snapshot(1, 1);
        fill(100);
        assertThat(task.extractOutputValues()).isEmpty();
        byte[] first = finish();

        open(during);
        byte[] again = finish();
        assertThat(again).isEqualTo(first);
    }

    @Test
    void aCheckpointAfterTheTrainingHoldsTheEpochAlone() throws Exception {
        open(null);
        fill(SAMPLE);
        task.getOneInputOperator().finish();
        OperatorSubtaskState after = task.snapshot(1, 1);
        task.close();

        open(after);
        fill(SAMPLE);
        task.setProcessingTime(task.getProcessingTime() + 1);
        task.getOneInputOperator().finish();
        List<Command> said = task.extractOutputValues();
        assertThat(said).hasSize(1);
        assertThat(said.get(0).epoch()).isEqualTo(1);
        assertThat(said.get(0).template()).isEmpty();
        task.close();
    }

    @Test
    void aStreamThatEndsEarlyTrainsNothing() throws Exception {
        open(null);
        fill(SAMPLE - 1);
        task.getOneInputOperator().finish();
        assertThat(task.extractOutputValues()).isEmpty();
        task.close();
    }

    @Test
    void thereIsOneTrainer() throws Exception {
        task =
                new OneInputStreamOperatorTestHarness<>(
                        new TrainOperator(COLLECTION, DIMENSION, SAMPLE), 128, 2, 0);
        task.setup(Command.TYPE.createSerializer(null));
        assertThatThrownBy(task::open)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("2 trainers and must have one");
    }

    private void open(OperatorSubtaskState state) throws Exception {
        task =
                new OneInputStreamOperatorTestHarness<>(
                        new TrainOperator(COLLECTION, DIMENSION, SAMPLE));
        task.setup(Command.TYPE.createSerializer(null));
        if (state != null) {
            task.initializeState(state);
        }
        task.open();
    }

    private void fill(int count) throws Exception {
        SplittableRandom random = new SplittableRandom(11);
        for (int row = 0; row < count; row++) {
            float[] vector = new float[DIMENSION];
            for (int i = 0; i < DIMENSION; i++) {
                vector[i] = (float) random.nextDouble(-1, 1);
            }
            task.processElement(new StreamRecord<>(vector));
        }
    }

    /** Ends the stream, which waits for the training; the template is the one thing said. */
    private byte[] finish() throws Exception {
        task.getOneInputOperator().finish();
        List<Command> said = task.extractOutputValues();
        assertThat(said).hasSize(1);
        try (NativeRouter router = NativeRouter.fromBytes(said.get(0).template())) {
            assertThat(router.placed()).isTrue();
            assertThat(router.epoch()).isEqualTo(1);
        }
        task.close();
        return said.get(0).template();
    }
}
