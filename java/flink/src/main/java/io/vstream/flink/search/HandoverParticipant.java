package io.vstream.flink.search;

import io.vstream.flink.fault.Fault;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.Step;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.route.ShardKeys;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeAdoption;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.NativeSnapshot;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.IntUnaryOperator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A partition's part in hand-overs: it waits for the acknowledgements of all place tasks and
 * routers, seals, adopts or drops rows, and says when it is done. None of this is state of a
 * checkpoint: after a restore the control task has it done again. docs/design/handover.md tells why
 * that is enough.
 *
 * <p>Files are written and read by another thread; rows enter and leave the engine some at a time,
 * between records.
 */
final class HandoverParticipant implements AutoCloseable {

    /** Rows that enter or leave the engine in one go: well under a millisecond. */
    private static final int ROWS_AT_ONCE = 64;

    private static final long PAUSE_MILLIS = 1;

    /** {@link Fault#KILL_IN_HAND_OVER} kills the process in one of so many moments. */
    private static final int MOMENTS_PER_KILL = 10;

    private static final Logger LOG = LoggerFactory.getLogger(HandoverParticipant.class);

    /**
     * The operator as a hand-over uses it: all of it in the task's thread but for {@link
     * #executeAsync}.
     */
    interface Host {
        /** The partition's engine. */
        NativeEngine engine();

        /** Applies the writes that came before. */
        void applyWrites();

        /** Runs {@code work} in the task's thread after some milliseconds. */
        void schedule(long millis, Work work);

        /**
         * Runs {@code work} in another thread, and then {@code next} with its result in this one.
         */
        <T> void executeAsync(Callable<T> work, Consumer<T> next);
    }

    /** Work in the task's thread. */
    interface Work {
        /** Does it. */
        void run() throws Exception;
    }

    /** Hears which steps all place tasks and routers have done. */
    interface Listener {
        /** Before the partition does its part of the step at this position. */
        void reached(long run, long position);
    }

    private final Host host;
    private final Consumer<PartitionReport> control;
    private final PartitionSettings settings;
    private final HandoverFolder shared;
    private final Path folder;
    private final ShardKeys keys;
    private final int partition;
    private final int partitions;
    private final boolean firstAttempt;
    private final long[] places;
    private final long[] routers;
    private final Deque<NativeAdoption> awaited = new ArrayDeque<>();

    /** All that was opened for {@link #awaited}, by the other thread: closed with this. */
    private final List<NativeAdoption> opened = new ArrayList<>();

    /** Hears of each step before anything of it is done. */
    private Listener listener = (life, position) -> {};

    private final Count adopted;
    private final Count released;
    private long run;
    private long begun = -1;
    private long done = -1;
    private volatile boolean closed;

    /** Epoch of the hand-over of which rows were adopted last. */
    private long hasAdopted = -1;

    private NativeSnapshot sealing;

    /**
     * @param part which partition this is, and of how many
     * @param folder private to this partition
     * @param shared with all machines, or null if nothing ever moves
     * @param meters rows adopted, rows released
     */
    HandoverParticipant(
            Host host,
            Consumer<PartitionReport> control,
            PartitionSettings settings,
            Part part,
            Path folder,
            HandoverFolder shared,
            List<Count> meters) {
        this.host = host;
        this.control = control;
        this.settings = settings;
        this.shared = shared;
        this.folder = folder;
        this.keys = ShardKeys.ofCollection(settings.collection());
        this.partition = part.partition;
        this.partitions = part.partitions;
        this.firstAttempt = part.attempt == 0;
        this.places = new long[part.places];
        this.routers = new long[part.routers];
        this.adopted = meters.get(0);
        this.released = meters.get(1);
    }

    /**
     * Which partition of how many, in which attempt of its task, and who sends to it.
     *
     * @param partition number
     * @param partitions in all
     * @param attempt 0 for the first
     * @param places subtasks of place
     * @param routers subtasks of route
     */
    record Part(int partition, int partitions, int attempt, int places, int routers) {}

    /** Sets who hears of the steps. */
    void listen(Listener hears) {
        listener = hears;
    }

    /** The report of this moment, without loads. */
    PartitionReport report() {
        return PartitionReport.of(partition, partitions, run, done);
    }

    /** True if no hand-over is under way, or none that this partition knows of. */
    boolean resting() {
        return run == 0 || done >= 0 && CommandAck.step(done) == Step.DONE;
    }

    /** Takes the acknowledgement of a place task or of a router. */
    void acknowledge(boolean byPlace, CommandAck ack) throws Exception {
        if (ack.run() != run) {
            run = ack.run();
            begun = -1;
            done = -1;
            Arrays.fill(places, -1);
            Arrays.fill(routers, -1);
        }
        (byPlace ? places : routers)[ack.task()] = ack.position();
        boolean moving = ack.step() == Step.SWITCH || ack.step() == Step.ADOPT;
        if (byPlace && moving && done < ack.position() && !others(ack, false).isEmpty()) {
            // From the first acknowledgement on: a delete may come of a row that is still on its
            // way.
            host.engine().awaitRows(true);
        }
        long reached = Math.min(least(places), least(routers));
        if (reached > begun && reached == ack.position()) {
            begun = reached;
            listener.reached(run, begun);
            begin(ack);
        }
    }

    private static long least(long[] positions) {
        return Arrays.stream(positions).min().orElse(-1);
    }

    private void begin(CommandAck ack) throws Exception {
        // Earlier writes come before the step: a delete that a move left
        // behind has
        // the moved row's own version and would kill it, adopted before the delete was applied.
        host.applyWrites();
        fail(Fault.FAIL_IN_ANNOUNCE, ack.step() == Step.ANNOUNCE && ack.moves().count() > 0);
        switch (ack.step()) {
            case SWITCH -> seal(ack, others(ack, true));
            case ADOPT -> fetch(ack, others(ack, false));
            case SETTLE -> {
                if (!others(ack, true).isEmpty()) {
                    beginRelease(ack);
                } else {
                    done(ack);
                }
            }
            default -> done(ack);
        }
    }

    private void done(CommandAck ack) {
        done = ack.position();
        control.accept(report());
    }

    /** Partitions that rows go to, or that they come from, ascending. */
    private TreeSet<Integer> others(CommandAck ack, boolean leaving) {
        MovedRanges moves = ack.moves();
        IntUnaryOperator from = i -> keys.partition(moves.from(i), partitions);
        IntUnaryOperator to = i -> keys.partition(moves.to(i), partitions);
        TreeSet<Integer> others = new TreeSet<>();
        for (int i = 0; i < moves.count(); i++) {
            if ((leaving ? from : to).applyAsInt(i) == partition) {
                others.add((leaving ? to : from).applyAsInt(i));
            }
        }
        return others;
    }

    /** Writes the rows that leave, by the partitions that they go to. */
    private void seal(CommandAck ack, TreeSet<Integer> targets) {
        if (targets.isEmpty()) {
            done(ack);
            return;
        }
        NativeSnapshot rows = host.engine().pin();
        sealing = rows;
        host.executeAsync(
                () -> {
                    try (rows) {
                        fail(Fault.FAIL_IN_SEAL, true);
                        for (int target : targets) {
                            Path files = folder.resolve("seal-" + ack.epoch() + "-" + target);
                            Folders.delete(files);
                            rows.writeMoved(files, between(ack.moves(), partition, target));
                            shared.put(ack, partition, target, files);
                            Folders.delete(files);
                        }
                    }
                    return ack;
                },
                this::done);
    }

    private MovedRanges between(MovedRanges moves, int source, int target) {
        return moves.select(
                i ->
                        keys.partition(moves.from(i), partitions) == source
                                && keys.partition(moves.to(i), partitions) == target);
    }

    /** Brings the files of the rows that come, verified. */
    private void fetch(CommandAck ack, TreeSet<Integer> sources) {
        if (sources.isEmpty()) {
            done(ack);
            return;
        }
        host.executeAsync(
                () -> {
                    List<NativeAdoption> all = new ArrayList<>();
                    for (int source : sources) {
                        Path files = local(ack, source);
                        Folders.delete(files);
                        Files.createDirectory(files);
                        shared.get(ack, source, partition, files);
                        all.add(open(files));
                    }
                    return all;
                },
                all -> {
                    awaited.addAll(all);
                    host.schedule(0, () -> adopt(ack));
                });
    }

    /** Not in the task's thread: what it opens is closed even if nobody waits for it any more. */
    private NativeAdoption open(Path files) {
        NativeAdoption rows = NativeAdoption.open(settings.collection(), files);
        synchronized (opened) {
            opened.add(rows);
            if (closed) {
                rows.close();
            }
        }
        return rows;
    }

    /** Takes in some rows, and comes back for more. */
    private void adopt(CommandAck ack) throws IOException {
        if (closed) {
            return;
        }
        NativeAdoption rows = awaited.peek();
        if (rows == null) {
            host.engine().awaitRows(false);
            closeOpened();
            others(ack, false).forEach(source -> Folders.delete(local(ack, source)));
            done(ack);
            return;
        }
        int taken = host.engine().adopt(rows, ROWS_AT_ONCE);
        adopted.inc(taken);
        // Once in a hand-over, however many rows it takes: else a large one would never end.
        fail(Fault.FAIL_IN_ADOPT, taken > 0 && hasAdopted != ack.epoch());
        hasAdopted = taken > 0 ? ack.epoch() : hasAdopted;
        if (taken == 0) {
            awaited.remove().close();
        }
        host.schedule(PAUSE_MILLIS, () -> adopt(ack));
    }

    /** Finds the rows that have left: all rows are visited, so not in the task's thread. */
    private void beginRelease(CommandAck ack) {
        NativeEngine engine = host.engine();
        MovedRanges ranges = ack.moves().select(i -> leaves(ack, i));
        host.executeAsync(
                () -> {
                    fail(Fault.FAIL_IN_SETTLE, true);
                    return engine.release(ranges, 0);
                },
                found -> release(ack, ranges, found));
    }

    /** Drops some of the {@code before} rows that have left, and comes back for more. */
    private void release(CommandAck ack, MovedRanges ranges, int before) {
        if (closed) {
            return;
        }
        int left = before == 0 ? 0 : host.engine().release(ranges, ROWS_AT_ONCE);
        released.inc(before - left);
        if (left == 0) {
            done(ack);
        } else {
            host.schedule(PAUSE_MILLIS, () -> release(ack, ranges, left));
        }
    }

    private boolean leaves(CommandAck ack, int range) {
        return keys.partition(ack.moves().from(range), partitions) == partition;
    }

    private Path local(CommandAck ack, int source) {
        return folder.resolve("adopt-" + ack.epoch() + "-" + source);
    }

    private void fail(Fault failure, boolean due) throws IOException {
        if (due && firstAttempt && settings.faults().contains(failure)) {
            throw new IOException("Failed on demand: " + failure.key() + ".");
        }
        // Only some partitions seal, adopt and settle, and each of them is told of a hand-over.
        int moments = MOMENTS_PER_KILL * (failure == Fault.FAIL_IN_ANNOUNCE ? partitions : 1);
        if (due
                && settings.faults().contains(Fault.KILL_IN_HAND_OVER)
                && ThreadLocalRandom.current().nextInt(moments) == 0) {
            LOG.warn("Killed on demand: {}", failure.key());
            Fault.killThisProcess();
        }
    }

    @Override
    public void close() {
        closed = true;
        if (sealing != null) {
            // It may have waited for its turn in vain.
            sealing.close();
        }
        closeOpened();
        awaited.clear();
    }

    private void closeOpened() {
        synchronized (opened) {
            opened.forEach(NativeAdoption::close);
            opened.clear();
        }
    }
}
