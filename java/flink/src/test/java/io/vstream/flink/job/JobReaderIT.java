package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.VectorQuery;
import io.vstream.flink.ask.JobReader;
import io.vstream.flink.ask.JobUnavailable;
import io.vstream.flink.ask.PythonJob;
import io.vstream.flink.ask.ReadOptions;
import io.vstream.flink.ask.ServedJob;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.ingest.Incoming;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A job is asked from outside while cells are split, ranges change partition and a step fails:
 * every exact answer holds each row that is written no more, once, and nothing that was deleted.
 */
class JobReaderIT {

    private static final long SEED = 20_261_126;
    private static final int WRITES = 10_000;
    private static final int IDS = 600;

    /** Ids behind the newest one of an answer that may still be written, in some partition. */
    private static final int UNSETTLED = 250;

    /** The gate at which all is written, so that a reader that starts late still finds rows. */
    private static final int ALL_WRITTEN = 1;

    private static final ReadOptions PATIENT =
            new ReadOptions("", null, Duration.ofSeconds(20), 10);

    @TempDir private Path folder;

    @ParameterizedTest
    @CsvSource({"FAIL_IN_ADOPT, false", "FAIL_IN_SETTLE, true"})
    void answersGoOnThroughHandOversAndARestart(Fault failure, boolean others) throws Exception {
        WriteScript script =
                new WriteScript(
                        8, SEED + failure.ordinal(), true, IDS, WRITES, 40, 4_000, 1_000, WRITES);
        List<Reading> readings = new ArrayList<>();
        PacedRuns.hold(
                script,
                3,
                paced -> {
                    Path checkpoints = folder.resolve("run-" + readings.size());
                    Reading reading = new Reading(paced, checkpoints, others);
                    readings.add(reading);
                    return new Scenario(paced, checkpoints)
                            .rebalancing("cells")
                            .with(failure)
                            .readable()
                            .atGates(stage -> reading.beforeGate(stage));
                },
                scenario -> readings.get(readings.size() - 1).end() && scenario.adopted() > 0);
        readings.forEach(
                reading -> {
                    assertThat(reading.end()).isTrue();
                    assertThat(reading.wrong).as("seed %d", script.seed()).isEmpty();
                    System.out.println(reading);
                });
        Reading last = readings.get(readings.size() - 1);
        assertThat(last.exact).isPositive();
        assertThat(last.found).isGreaterThanOrEqualTo((int) (0.95 * last.near));
    }

    @Test
    void whereNoJobRunsThatIsSaid() throws Exception {
        ReadOptions hasty = new ReadOptions("", null, Duration.ofMillis(100), 10);
        try (JobReader reader = new JobReader(folder.toUri().toString(), "", hasty)) {
            assertThatThrownBy(() -> reader.search(VectorQuery.of(1, 1, 2)))
                    .isInstanceOf(JobUnavailable.class)
                    .hasMessageContaining("no job has published where it answers");
        }
    }

    /** Ids of the nearest rows, nearest first. */
    private interface Asking {
        long[] ask(float[] vector, int k, boolean exact) throws Exception;
    }

    /** Asks as long as a job runs. */
    private static final class Reading {

        private final WriteScript script;
        private final TreeMap<Long, float[]> last = new TreeMap<>();
        private final List<String> wrong = new ArrayList<>();
        private final Thread thread;
        private volatile boolean ended;
        private final CountDownLatch settledOnce = new CountDownLatch(1);
        private int exact;
        private int near;
        private int found;

        /** With {@code others} a server and Python ask by turns, else Java. */
        private Reading(WriteScript script, Path checkpoints, boolean others) {
            this.script = script;
            for (int position = 0; position < WRITES; position++) {
                Incoming in = new Incoming();
                script.fill(position, in);
                if (in.kind == Incoming.Kind.DELETE) {
                    last.remove(in.id);
                } else {
                    last.put(in.id, in.vector);
                }
            }
            thread = new Thread(() -> read(checkpoints, others), "reading");
            thread.start();
        }

        private void read(Path checkpoints, boolean others) {
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
                    String folder = checkpoints.toUri().toString();
                    try (JobReader reader = new JobReader(folder, "", PATIENT)) {
                        ask(
                                (vector, k, exact) -> {
                                    VectorQuery query = VectorQuery.of(1, vector).withK(k);
                                    return reader.search(exact ? query.withExactAnswer() : query)
                                            .ids();
                                });
                    }
                }
            } catch (IOException e) {
                // Only the end of the job keeps it from answering.
                if (!ended) {
                    wrong.add(e.toString());
                }
            } catch (Exception e) {
                wrong.add(e.toString());
            }
        }

        private void ask(Asking job) throws Exception {
            SplittableRandom random = new SplittableRandom(SEED);
            while (!ended) {
                long[] all = job.ask(last.firstEntry().getValue(), WriteScript.ALL, true);
                check(all);
                for (int i = 0; i < 10 && !settled(all).isEmpty(); i++) {
                    askNear(job, new ArrayList<>(settled(all)), random);
                }
            }
        }

        /** Ids of rows that are written no more. */
        private TreeSet<Long> settled(long[] answer) {
            long newest = Arrays.stream(answer).max().orElse(0);
            return new TreeSet<>(last.headMap(newest - UNSETTLED).keySet());
        }

        private void check(long[] answer) {
            TreeSet<Long> ids = new TreeSet<>();
            for (long id : answer) {
                if (!ids.add(id)) {
                    wrong.add("row " + id + " is there twice");
                }
            }
            TreeSet<Long> expected = settled(answer);
            long end = Arrays.stream(answer).max().orElse(0) - UNSETTLED;
            TreeSet<Long> there = new TreeSet<>(ids.headSet(Math.max(0, end)));
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
        private void beforeGate(int stage) {
            try {
                while (stage == ALL_WRITTEN
                        && thread.isAlive()
                        && !settledOnce.await(10, TimeUnit.MILLISECONDS)) {
                    // Ends with the answer, or with the reader: each question has a deadline.
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        private boolean end() {
            ended = true;
            try {
                thread.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            return !thread.isAlive();
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
}
