package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.route.QueryCopy;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.VectorBatch;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.flink.streaming.runtime.tasks.StreamTaskActionExecutor;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxExecutorImpl;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A partition that gets more queries than it can answer, on a real engine. */
@Timeout(120)
class SearchAdmissionTest {

    private static final int DIMENSION = 64;
    private static final int ROWS = 6_000;
    private static final int BATCH = 500;
    private static final int K = 10;
    private static final int IN_FLIGHT = 16;
    private static final long SEED = 20260711;

    private final MailboxExecutorImpl executor =
            new MailboxExecutorImpl(
                    new TaskMailboxImpl(),
                    0,
                    StreamTaskActionExecutor.IMMEDIATE,
                    new MailboxProcessor(controller -> {}));
    private final NativeEngine engine =
            NativeEngine.create(
                    """
                    {"dimension": 64, "metric": "l2", "index": "cluster", "seed": 3,
                     "encoder": {"kind": "id"}}
                    """);
    private final VectorBatch writes = new VectorBatch(DIMENSION, BATCH);
    private final Random random = new Random(SEED);
    private final List<float[]> rows = new ArrayList<>();
    private final Map<Long, PartialAnswer> answers = new HashMap<>();
    private SearchAdmission admission;

    @AfterEach
    void close() throws Exception {
        admission.close();
        engine.close();
    }

    /**
     * A query that reads every row once held the only thread, the queries behind it filled all
     * places, and then the task waited: nothing was written any more.
     */
    @Test
    void writesGoOnAndEveryQueryIsAnswered() throws Exception {
        open(true, 60_000);
        CountDownLatch busy = new CountDownLatch(1);
        admission.executor().begin(new HeldTask(false, busy));
        admission.executor().begin(new HeldTask(true, busy));
        int asked = 0;
        while (rows.size() < ROWS) {
            write();
            // Two in three read every row.
            for (int query = 0; query < 9; query++) {
                ask(asked, asked++ % 3 == 0 ? 0 : BufferLayout.EFFORT_EXACT, false);
            }
        }
        assertThat(live()).isEqualTo(ROWS);
        // All but those that have a place, of which the held ones have two.
        int places = IN_FLIGHT + SearchExecutor.EXACT_PLACES;
        assertThat(answers).hasSize(asked - places + 2);
        assertThat(answers.values()).allMatch(PartialAnswer::incomplete);
        busy.countDown();
        admission.drain();
        assertThat(answers).hasSize(asked);
        assertThat(answers.values().stream().filter(answer -> !answer.incomplete()))
                .hasSize(places - 2)
                .allMatch(answer -> answer.rows().size() == K);
        // There is room again, and an exact query finds what is nearest.
        ask(asked, BufferLayout.EFFORT_EXACT, false);
        admission.drain();
        PartialAnswer last = answers.get((long) asked);
        assertThat(last.rows().ids()).as("seed %d", SEED).isEqualTo(nearest(query(asked)));
    }

    /** Where the task may wait for a place, audits once made it do so. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void auditsTakeNoPlaceOfQueriesAndHoldUpNobody(boolean shed) throws Exception {
        open(shed, 60_000);
        CountDownLatch busy = new CountDownLatch(1);
        write();
        admission.executor().begin(new HeldTask(true, busy));
        for (int audit = 0; audit < 40; audit++) {
            ask(audit, 0, true);
        }
        assertThat(answers.values())
                .hasSize(40 - SearchExecutor.EXACT_PLACES + 1)
                .allMatch(PartialAnswer::incomplete);
        for (int query = 100; query < 100 + IN_FLIGHT; query++) {
            ask(query, 0, false);
        }
        busy.countDown();
        admission.drain();
        assertThat(answers).hasSize(40 + IN_FLIGHT);
        for (long query = 100; query < 100 + IN_FLIGHT; query++) {
            assertThat(answers.get(query).incomplete()).isFalse();
        }
    }

    @Test
    void whereTheTaskMayWaitNothingIsShed() throws Exception {
        open(false, 60_000);
        write();
        for (int query = 0; query < 200; query++) {
            ask(query, query % 2 == 0 ? 0 : BufferLayout.EFFORT_EXACT, false);
        }
        admission.drain();
        assertThat(answers.values()).hasSize(200).noneMatch(PartialAnswer::incomplete);
    }

    @Test
    void aQueryPastItsDeadlineIsAnsweredWithoutASearch() throws Exception {
        open(true, 1_000);
        CountDownLatch never = new CountDownLatch(1);
        write();
        admission.executor().begin(new HeldTask(false, never));
        ask(1, 0, false);
        admission.drain();
        assertThat(answers.get(1L).incomplete()).isTrue();
        assertThat(answers.get(1L).rows().size()).isZero();
        never.countDown();
    }

    private void open(boolean shed, long deadlineMillis) {
        admission =
                new SearchAdmission(
                        new SearchTask.Partition(engine, new BufferPool(DIMENSION), 0, 0),
                        new SearchSettings(1, IN_FLIGHT, shed, deadlineMillis),
                        executor,
                        "test",
                        new SearchAdmission.Writes(this::apply, () -> Frontier.NONE),
                        found -> {
                            if (found != HeldTask.NOTHING) {
                                PartialAnswer answer = found.answer();
                                assertThat(answers.put(answer.ticket().number(), answer)).isNull();
                            }
                        });
    }

    /** A search that takes as long as the test wants. */
    private record HeldTask(boolean exact, CountDownLatch go)
            implements SearchExecutor.Task<SearchResult> {

        private static final SearchResult NOTHING = new SearchResult(null, 0, 0, false, 0, 0, null);

        @Override
        public SearchResult run() throws Exception {
            go.await();
            return NOTHING;
        }

        @Override
        public SearchResult shed() {
            return NOTHING;
        }

        @Override
        public void close() {}
    }

    private void write() {
        for (int i = 0; i < BATCH; i++) {
            float[] vector = vector(random);
            writes.upsert(rows.size(), 1, 0, 0, vector);
            rows.add(vector);
        }
        apply();
    }

    private void apply() {
        if (!writes.isEmpty()) {
            engine.write(writes.buffer(), writes.count());
            writes.clear();
        }
    }

    private int live() throws Exception {
        String stats = engine.statsJson();
        String live = stats.replaceAll(".*\"live-rows\":(\\d+).*", "$1");
        return Integer.parseInt(live);
    }

    private void ask(long number, int effort, boolean audit) throws Exception {
        Ticket ticket = new Ticket(number, number, K, effort, 0, true);
        if (audit) {
            ticket = ticket.asAudit();
        }
        admission.ask(
                new QueryCopy(
                        ticket,
                        0,
                        true,
                        1,
                        -1,
                        query(number),
                        Asked.NOTHING,
                        null,
                        QueryCopy.WHOLE));
    }

    private static float[] query(long number) {
        return vector(new Random(SEED + number));
    }

    private static float[] vector(Random random) {
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) random.nextGaussian();
        }
        return vector;
    }

    private long[] nearest(float[] query) {
        List<Long> ids = new ArrayList<>();
        for (long id = 0; id < rows.size(); id++) {
            ids.add(id);
        }
        ids.sort(
                java.util.Comparator.comparingDouble(
                        id -> distance(query, rows.get(id.intValue()))));
        return ids.subList(0, K).stream().mapToLong(Long::longValue).toArray();
    }

    private static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < DIMENSION; i++) {
            sum += (a[i] - b[i]) * (double) (a[i] - b[i]);
        }
        return sum;
    }
}
