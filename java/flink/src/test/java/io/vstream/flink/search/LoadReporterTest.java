package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.fault.Fault;
import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.metrics.Count;
import io.vstream.nativecore.NativeEngine;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What a partition tells of its costs, on a real engine without rows. */
@Timeout(60)
class LoadReporterTest implements HandoverParticipant.Host {

    private static final int BUCKET = 3;
    private static final long MILLISECOND = 1_000_000;

    @TempDir private Path folder;

    private final Deque<HandoverParticipant.Work> later = new ArrayDeque<>();
    private final List<PartitionReport> told = new ArrayList<>();
    private NativeEngine engine;
    private LoadReporter loads;
    private int others;
    private int refused;
    private boolean refusing;

    @BeforeEach
    void begin() throws Exception {
        engine =
                PartitionState.create(
                        CheckpointLab.SETTINGS,
                        new KeyGroupRange(0, 127),
                        folder.resolve("engine"));
        PartitionSettings settings =
                new PartitionSettings(
                        CheckpointLab.SETTINGS,
                        CheckpointLab.DIMENSION,
                        null,
                        null,
                        null,
                        1_000,
                        true,
                        0,
                        new SearchSettings(0, 1, false, 5_000),
                        null,
                        EnumSet.noneOf(Fault.class));
        HandoverParticipant handover =
                new HandoverParticipant(
                        this,
                        told::add,
                        settings,
                        new HandoverParticipant.Part(0, 1, 0, 1, 1),
                        folder,
                        null,
                        List.of(new Count(), new Count()));
        loads = new LoadReporter(this, handover, this::hear, settings, 1);
        loads.begin(new Count(), new Count());
        // The first look at the loads is what later ones are compared with.
        while (others == 0) {
            later.remove().run();
        }
    }

    @AfterEach
    void end() {
        engine.close();
    }

    /** While the JobManager owed an answer, costs were once forgotten. */
    @Test
    void costsThatAreNotHeardAreToldWithTheNextReport() throws Exception {
        loads.searched(BUCKET, 7 * MILLISECOND);
        refusing = true;
        run(0, 1);
        loads.searched(BUCKET, 5 * MILLISECOND);
        refusing = false;
        run(1, 1);
        assertThat(told.get(0).buckets()).containsExactly((short) BUCKET);
        assertThat(told.get(0).micros()).containsExactly(12_000);
        loads.searched(BUCKET, MILLISECOND);
        run(2, 1);
        assertThat(told.get(1).micros()).containsExactly(1_000);
    }

    private boolean hear(PartitionReport report) {
        if (report.buckets() == null) {
            others++;
            return true;
        }
        if (refusing) {
            refused++;
            return false;
        }
        return told.add(report);
    }

    /** Lets time pass until so many reports with costs were heard and so many were not. */
    private void run(int heard, int unheard) throws Exception {
        while (told.size() < heard || refused < unheard) {
            later.remove().run();
        }
    }

    @Override
    public NativeEngine engine() {
        return engine;
    }

    @Override
    public void applyWrites() {
        // There are none.
    }

    @Override
    public void schedule(long millis, HandoverParticipant.Work work) {
        later.add(work);
    }

    @Override
    public <T> void executeAsync(Callable<T> work, Consumer<T> next) {
        later.add(() -> next.accept(work.call()));
    }
}
