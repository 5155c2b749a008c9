package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.fault.Fault;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.Step;
import io.vstream.flink.metrics.Count;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeAdoption;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.VectorBatch;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two partitions, of which one leaves the other a range, and writes that wait in their batches. */
class HandoverParticipantTest {

    private static final int PARTITIONS = 2;
    private static final int MOVED = 1_000;
    private static final int STAYS = 9_000;

    @TempDir private Path folder;
    private Partition old;
    private Partition next;

    @BeforeEach
    void start() throws Exception {
        old = new Partition(0, PARTITIONS, new KeyGroupRange(0, 63));
        next = new Partition(1, PARTITIONS, new KeyGroupRange(64, 127));
    }

    @AfterEach
    void stop() {
        old.close();
        next.close();
    }

    @Test
    void rowsOfTheRangeChangePartition() throws Exception {
        old.writes.upsert(7, 5, MOVED, 10, vector(7));
        old.writes.upsert(8, 6, STAYS, 11, vector(8));
        handOver();
        assertThat(old.rows()).isEqualTo(Map.of(8L, 6L));
        assertThat(next.rows()).isEqualTo(Map.of(7L, 5L));
        assertThat(next.adopted.getCount()).isEqualTo(1);
        assertThat(old.released.getCount()).isEqualTo(1);
    }

    /**
     * The row moved by an update from the new owner into the range just before that changed hands,
     * so the delete that it left behind, of the same version, may still wait there.
     */
    @Test
    void aDeleteThatWaitsDoesNotKillTheRowThatTheUpdateMoved() throws Exception {
        next.writes.upsert(7, 4, STAYS, 100, vector(7));
        next.applyWrites();
        old.writes.upsert(7, 5, MOVED, 10, vector(7));
        next.writes.delete(7, 5, STAYS, 100);
        handOver();
        assertThat(old.rows()).isEmpty();
        assertThat(next.rows()).isEqualTo(Map.of(7L, 5L));
    }

    @Test
    void aDeleteThatWaitsKillsTheRowThatComes() throws Exception {
        old.writes.upsert(7, 5, MOVED, 10, vector(7));
        old.applyWrites();
        say(Step.ANNOUNCE);
        acknowledge(Step.SWITCH, 0);
        old.writes.delete(7, 6, MOVED, 10);
        next.writes.delete(7, 6, MOVED, 100);
        acknowledge(Step.SWITCH, 1);
        run();
        say(Step.ADOPT);
        say(Step.SETTLE);
        say(Step.DONE);
        assertThat(old.rows()).isEmpty();
        assertThat(next.rows()).isEmpty();
    }

    /**
     * After a restore at a lower parallelism while rows were adopted and not all dropped: of row 7
     * the old owner's copy was kept, of row 8 the new owner's.
     */
    @Test
    void ownersThatHaveBecomeOnePartitionLoseNothing() throws Exception {
        try (Partition both = new Partition(0, 1, new KeyGroupRange(0, 127))) {
            both.writes.upsert(7, 5, MOVED, 10, vector(7));
            both.writes.upsert(8, 6, MOVED, 100, vector(8));
            for (Step step : List.of(Step.SWITCH, Step.ADOPT, Step.SETTLE, Step.DONE)) {
                CommandAck ack = new CommandAck(77, 1, step, 0, range());
                both.part.acknowledge(true, ack);
                both.part.acknowledge(false, ack);
                both.run();
                assertThat(both.reached()).isEqualTo(CommandAck.position(1, step));
            }
            assertThat(both.rows()).isEqualTo(Map.of(7L, 5L, 8L, 6L));
            assertThat(both.released.getCount()).isZero();
        }
    }

    /** A partition whose reports nobody waits for must not speak to the JobManager. */
    @Test
    void aPartitionRestsBeforeAndAfterHandOversAlone() throws Exception {
        assertThat(old.part.resting()).isTrue();
        acknowledge(Step.ANNOUNCE, 0);
        assertThat(old.part.resting()).isFalse();
        acknowledge(Step.ANNOUNCE, 1);
        run();
        for (Step step : List.of(Step.SWITCH, Step.ADOPT, Step.SETTLE)) {
            say(step);
            assertThat(old.part.resting()).as("%s", step).isFalse();
            assertThat(next.part.resting()).as("%s", step).isFalse();
        }
        say(Step.DONE);
        assertThat(old.part.resting()).isTrue();
        assertThat(next.part.resting()).isTrue();
    }

    /** As if the task ended while the other thread was busy: nobody is left to take the rows. */
    @Test
    void rowsThatNobodyTakesAreLetGo() throws Exception {
        old.writes.upsert(7, 5, MOVED, 10, vector(7));
        say(Step.ANNOUNCE);
        say(Step.SWITCH);
        for (int task = 0; task < PARTITIONS; task++) {
            acknowledge(Step.ADOPT, task);
        }
        next.abandoned = true;
        next.run();
        next.part.close();
        List<?> opened = (List<?>) next.unclaimed.get(0);
        assertThat(opened).hasSize(1);
        assertThatThrownBy(() -> next.engine.adopt((NativeAdoption) opened.get(0), 1))
                .isInstanceOfSatisfying(
                        EngineException.class,
                        e -> assertThat(e.kind()).isEqualTo(EngineException.Kind.CLOSED));
    }

    private void handOver() throws Exception {
        for (Step step : Step.values()) {
            say(step);
        }
    }

    private void say(Step step) throws Exception {
        for (int task = 0; task < PARTITIONS; task++) {
            acknowledge(step, task);
        }
        run();
        assertThat(List.of(old.reached(), next.reached()))
                .containsOnly(CommandAck.position(1, step));
    }

    private void acknowledge(Step step, int task) throws Exception {
        CommandAck ack = new CommandAck(77, 1, step, task, range());
        for (Partition partition : List.of(old, next)) {
            partition.part.acknowledge(true, ack);
            partition.part.acknowledge(false, ack);
        }
    }

    private void run() throws Exception {
        old.run();
        next.run();
    }

    /** Codes 1,000 to 1,999 go from shard 10 to shard 100. */
    private static MovedRanges range() {
        return new MovedRanges(
                ByteBuffer.allocate(24)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(MOVED)
                        .putLong(MOVED + 999)
                        .putShort((short) 10)
                        .putShort((short) 100)
                        .array());
    }

    private static float[] vector(long id) {
        return new float[] {id, 0, 0, 0};
    }

    /** The part of an operator; what another thread or a timer would do is done by {@link #run}. */
    private final class Partition implements HandoverParticipant.Host, AutoCloseable {

        private final NativeEngine engine;
        private final HandoverParticipant part;
        private final VectorBatch writes = new VectorBatch(CheckpointLab.DIMENSION, 32);
        private final Deque<HandoverParticipant.Work> later = new ArrayDeque<>();
        private final List<PartitionReport> reports = new ArrayList<>();
        private final Count adopted = new Count();
        private final Count released = new Count();
        private final List<Object> unclaimed = new ArrayList<>();
        private boolean abandoned;

        private Partition(int number, int partitions, KeyGroupRange shards) throws Exception {
            Path home = Files.createDirectories(folder.resolve(number + "-of-" + partitions));
            engine = PartitionState.create(CheckpointLab.SETTINGS, shards, home.resolve("engine"));
            part =
                    new HandoverParticipant(
                            this,
                            reports::add,
                            settings(),
                            new HandoverParticipant.Part(
                                    number, partitions, 0, partitions, partitions),
                            home,
                            new HandoverFolder(folder.resolve("shared").toUri().toString()),
                            List.of(adopted, released));
        }

        private PartitionSettings settings() {
            return new PartitionSettings(
                    CheckpointLab.SETTINGS,
                    CheckpointLab.DIMENSION,
                    null,
                    null,
                    null,
                    1_000,
                    false,
                    0,
                    new SearchSettings(0, 1, false, 5_000),
                    null,
                    EnumSet.noneOf(Fault.class));
        }

        private Map<Long, Long> rows() {
            applyWrites();
            return CheckpointLab.rows(engine);
        }

        private long reached() {
            return reports.get(reports.size() - 1).position();
        }

        private void run() throws Exception {
            while (!later.isEmpty()) {
                later.remove().run();
            }
        }

        @Override
        public NativeEngine engine() {
            return engine;
        }

        @Override
        public void applyWrites() {
            engine.write(writes.buffer(), writes.count());
            writes.clear();
        }

        @Override
        public void schedule(long millis, HandoverParticipant.Work work) {
            later.add(work);
        }

        @Override
        public <T> void executeAsync(Callable<T> work, Consumer<T> next) {
            later.add(
                    () -> {
                        T result = work.call();
                        if (abandoned) {
                            unclaimed.add(result);
                        } else {
                            next.accept(result);
                        }
                    });
        }

        @Override
        public void close() {
            part.close();
            engine.close();
        }
    }
}
