package io.vstream.flink.job;

import io.vstream.flink.VectorQuery;
import io.vstream.flink.ask.JobReader;
import io.vstream.flink.ask.PythonJob;
import io.vstream.flink.ask.ReadOptions;
import io.vstream.flink.ask.ServedJob;
import io.vstream.flink.ingest.Incoming;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/**
 * Asks a job from outside as long as it runs: every exact answer must hold each row that is written
 * no more, once, and nothing that was deleted.
 */
final class Reading {

    /** The gate at which all is written, so that a reader that starts late still finds rows. */
    private static final int ALL_WRITTEN = 1;

    /** How long the job waits there for the reader. */
    private static final long PATIENCE_NANOS = Duration.ofSeconds(60).toNanos();

    private static final ReadOptions PATIENT =
            new ReadOptions("", null, Duration.ofSeconds(20), 10);

    /** Ids of the nearest rows, nearest first. */
    private interface Asking {
        long[] ask(float[] vector, int k, boolean exact) throws Exception;
    }

    private final WriteScript script;
    private final LongSupplier applied;

    /** Where each id is written last, deletes too. */
    private final Map<Long, Integer> written = new HashMap<>();

    private final TreeMap<Long, float[]> last = new TreeMap<>();
    private final List<String> wrong = new ArrayList<>();
    private final Thread thread;
    private volatile boolean ended;
    private final CountDownLatch settledOnce = new CountDownLatch(1);
    private int exact;
    private int near;
    private int found;

    /**
     * Starts to ask; with {@code others} a server and Python by turns, else Java.
     *
     * @param script with gates at the positions where it begins and where all is written
     * @param applied records of the script that are applied for good
     * @param checkpoints their address
     */
    Reading(WriteScript script, LongSupplier applied, String checkpoints, boolean others) {
        this.script = script;
        this.applied = applied;
        for (int position = 0; position < script.writes(); position++) {
            Incoming in = new Incoming();
            script.fill(position, in);
            written.put(in.id, position);
            if (in.kind == Incoming.Kind.DELETE) {
                last.remove(in.id);
            } else {
                last.put(in.id, in.vector);
            }
        }
        thread = new Thread(() -> read(checkpoints, others), "reading");
        thread.start();
    }

    private void read(String checkpoints, boolean others) {
        try {
            if (others) {
                try (ServedJob server = new ServedJob(checkpoints);
                        PythonJob python = new PythonJob(checkpoints)) {
                    AtomicInteger turn = new AtomicInteger();
                    ask(
                            (vector, k, exact) ->
                                    turn.getAndIncrement() % 2 == 0
                                            ? server.ask(vector, k, exact)
                                            : python.ask(vector, k, exact));
                }
            } else {
                try (JobReader reader = new JobReader(checkpoints, "", PATIENT)) {
                    ask(
                            (vector, k, exact) -> {
                                VectorQuery query = VectorQuery.of(1, vector).withK(k);
                                return reader.search(exact ? query.withExactAnswer() : query).ids();
                            });
                }
            }
        } catch (IOException e) {
            // Only the end of the job keeps it from answering.
            if (!ended) {
                wrong.add(e.toString());
            }
        } catch (Exception | Error e) {
            wrong.add(e.toString());
        }
    }

    private void ask(Asking job) throws Exception {
        SplittableRandom random = new SplittableRandom(script.seed());
        while (!ended) {
            long settled = applied.getAsLong();
            check(job.ask(last.firstEntry().getValue(), WriteScript.ALL, true), settled);
            List<Long> ids = new ArrayList<>(last.keySet());
            ids.removeIf(id -> written.get(id) >= settled);
            for (int i = 0; i < 10 && !ids.isEmpty(); i++) {
                askNear(job, ids, random);
            }
        }
    }

    /** Checks rows that were written no more when so many records had been applied. */
    private void check(long[] answer, long settled) {
        TreeSet<Long> there = new TreeSet<>();
        for (long id : answer) {
            if (!there.add(id)) {
                wrong.add("row " + id + " is there twice");
            }
        }
        TreeSet<Long> expected = new TreeSet<>(last.keySet());
        expected.removeIf(id -> written.get(id) >= settled);
        there.removeIf(id -> written.containsKey(id) && written.get(id) >= settled);
        if (!there.equals(expected)) {
            TreeSet<Long> missing = new TreeSet<>(expected);
            missing.removeAll(there);
            there.removeAll(expected);
            wrong.add("missing " + missing + ", should not be there " + there);
        }
        if (!expected.isEmpty()) {
            exact++;
            settledOnce.countDown();
        }
    }

    private void askNear(Asking job, List<Long> ids, SplittableRandom random) throws Exception {
        long id = ids.get(random.nextInt(ids.size()));
        long[] answer = job.ask(last.get(id), 1, false);
        near++;
        found += answer.length == 1 && answer[0] == id ? 1 : 0;
    }

    /** Keeps the job running until a whole answer has been checked, or reading has failed. */
    void beforeGate(int stage) {
        if (stage != ALL_WRITTEN) {
            return;
        }
        long end = System.nanoTime() + PATIENCE_NANOS;
        try {
            while (thread.isAlive()
                    && System.nanoTime() < end
                    && !settledOnce.await(10, TimeUnit.MILLISECONDS)) {
                // A reader that finds nothing by then fails the test.
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Stops asking. */
    void end() {
        ended = true;
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** What answers had that they must not have, and what they lacked. */
    List<String> wrong() {
        return wrong;
    }

    /** There were exact answers, and approximate ones found nearly all. */
    boolean hasFound() {
        return exact > 0 && near > 0 && found >= 0.95 * near;
    }

    @Override
    public String toString() {
        return exact
                + " exact answers, "
                + found
                + " of "
                + near
                + " rows found, seed "
                + script.seed();
    }
}
