package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.streaming.runtime.tasks.StreamTaskActionExecutor;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxExecutorImpl;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class SearchExecutorTest {

    private final TaskMailboxImpl mailbox = new TaskMailboxImpl();
    private final MailboxExecutorImpl executor =
            new MailboxExecutorImpl(
                    mailbox,
                    0,
                    StreamTaskActionExecutor.IMMEDIATE,
                    new MailboxProcessor(controller -> {}));
    private final List<Integer> answers = new ArrayList<>();
    private final AtomicInteger closed = new AtomicInteger();
    private SearchExecutor<Integer> searches;

    @AfterEach
    void close() throws Exception {
        searches.close();
    }

    private SearchExecutor<Integer> searches(int threads, int inFlight, long deadlineMillis) {
        SearchSettings searching = new SearchSettings(threads, inFlight, true, deadlineMillis);
        return new SearchExecutor<>(executor, "test", searching, answers::add);
    }

    /** A search that waits for somebody; its answer without a search is its number, negative. */
    private class HeldTask implements SearchExecutor.Task<Integer> {

        private final int number;
        private final CountDownLatch go;
        private final boolean exact;

        private HeldTask(int number, CountDownLatch go) {
            this(number, go, false);
        }

        HeldTask(int number, CountDownLatch go, boolean exact) {
            this.number = number;
            this.go = go;
            this.exact = exact;
        }

        @Override
        public boolean exact() {
            return exact;
        }

        @Override
        public Integer shed() {
            return -number;
        }

        @Override
        public Integer run() throws Exception {
            go.await();
            return number;
        }

        @Override
        public void close() {
            closed.incrementAndGet();
        }
    }

    @Test
    void aSlowSearchDelaysOnlyItsQuery() throws Exception {
        searches = searches(2, 16, 60_000);
        CountDownLatch slow = new CountDownLatch(1);
        CountDownLatch open = new CountDownLatch(0);
        searches.begin(new HeldTask(0, slow));
        for (int number = 1; number <= 50; number++) {
            searches.awaitRoom(false);
            searches.begin(new HeldTask(number, open));
        }
        while (answers.size() < 50) {
            executor.yield();
        }
        assertThat(answers).doesNotContain(0);
        assertThat(searches.inFlight()).isEqualTo(1);
        slow.countDown();
        searches.drain();
        assertThat(answers).hasSize(51).endsWith(0).doesNotHaveDuplicates();
        assertThat(closed).hasValue(51);
    }

    @Test
    void theTaskWaitsRatherThanHoldMoreThanItMay() throws Exception {
        searches = searches(1, 3, 60_000);
        CountDownLatch go = new CountDownLatch(1);
        for (int number = 0; number < 3; number++) {
            searches.awaitRoom(false);
            searches.begin(new HeldTask(number, go));
        }
        Thread task = Thread.currentThread();
        Thread later =
                new Thread(
                        () -> {
                            while (task.getState() == Thread.State.RUNNABLE) {
                                Thread.onSpinWait();
                            }
                            go.countDown();
                        });
        later.start();
        searches.awaitRoom(false);
        assertThat(answers).as("one made room").containsExactly(0);
        assertThat(searches.inFlight()).isEqualTo(2);
        searches.begin(new HeldTask(3, go));
        searches.drain();
        assertThat(answers).containsExactly(0, 1, 2, 3);
        assertThat(searches.inFlight()).isZero();
        later.join();
    }

    @Test
    void aFailureFailsTheTask() {
        searches = searches(1, 3, 60_000);
        searches.begin(
                new HeldTask(1, null) {
                    @Override
                    public Integer run() {
                        throw new IllegalStateException("The file is damaged.");
                    }
                });
        assertThatThrownBy(searches::drain).hasStackTraceContaining("The file is damaged.");
        assertThat(closed).hasValue(1);
    }

    /** Such as no memory for a buffer: a query without an answer would hold up every barrier. */
    @Test
    void anErrorFailsTheTaskToo() {
        searches = searches(1, 3, 60_000);
        searches.begin(
                new HeldTask(1, null) {
                    @Override
                    public Integer run() {
                        throw new OutOfMemoryError("Cannot reserve bytes of direct memory.");
                    }
                });
        assertThatThrownBy(searches::drain).hasStackTraceContaining("Cannot reserve bytes");
        assertThat(closed).hasValue(1);
    }

    @Test
    void closingLetsGoOfEverySearchThatWaits() throws Exception {
        searches = searches(1, 8, 60_000);
        CountDownLatch never = new CountDownLatch(1);
        for (int number = 0; number < 8; number++) {
            searches.begin(new HeldTask(number, never));
        }
        mailbox.close();
        searches.close();
        // The one that runs is interrupted, the others never begin.
        assertThat(never.await(0, TimeUnit.MILLISECONDS)).isFalse();
        assertThat(closed).hasValue(8);
        assertThat(answers).isEmpty();
    }

    /** One exact query over rows on a slow disk once held up all queries of its partition. */
    @Test
    void exactSearchesAreNeverInTheWayOfOthers() throws Exception {
        searches = searches(1, 4, 60_000);
        CountDownLatch slow = new CountDownLatch(1);
        CountDownLatch open = new CountDownLatch(0);
        for (int number = 1; number <= 4; number++) {
            searches.begin(new HeldTask(number, slow, true));
        }
        assertThat(searches.hasRoom(true)).isFalse();
        for (int number = 11; number <= 60; number++) {
            searches.awaitRoom(false);
            searches.begin(new HeldTask(number, open));
        }
        while (answers.size() < 50) {
            executor.yield();
        }
        assertThat(answers).allMatch(number -> number > 10);
        slow.countDown();
        searches.drain();
        assertThat(answers).hasSize(54).endsWith(1, 2, 3, 4);
        assertThat(searches.hasRoom(true)).isTrue();
        assertThat(closed).hasValue(54);
    }

    /** Eighty of 60 ms each once held up a barrier, and with it all writes, for 5 s. */
    @Test
    void aBarrierWaitsForFewExactSearches() throws Exception {
        searches = searches(2, 256, 60_000);
        CountDownLatch slow = new CountDownLatch(1);
        int begun = 0;
        while (searches.hasRoom(true)) {
            searches.begin(new HeldTask(++begun, slow, true));
        }
        assertThat(begun).isEqualTo(2 * SearchExecutor.EXACT_PLACES).isLessThan(32);
        for (int number = 100; number < 356; number++) {
            assertThat(searches.hasRoom(false)).isTrue();
            searches.begin(new HeldTask(number, slow));
        }
        assertThat(searches.hasRoom(false)).isFalse();
        slow.countDown();
        searches.drain();
        assertThat(answers).hasSize(begun + 256).doesNotHaveDuplicates();
    }

    /** On busy cores those that compute last once held up all writes for half of the time. */
    @Test
    void aTaskThatWaitsForExactSearchesHasSomeRunAsItRuns() throws Exception {
        searches = searches(1, 256, 60_000);
        CountDownLatch stuck = new CountDownLatch(1);
        Set<String> threads = ConcurrentHashMap.newKeySet();
        for (int number = 1; number <= SearchExecutor.EXACT_PLACES; number++) {
            CountDownLatch go = number == 1 ? stuck : new CountDownLatch(0);
            searches.begin(
                    new HeldTask(number, go, true) {
                        @Override
                        public Integer run() throws Exception {
                            threads.add(Thread.currentThread().getName());
                            return super.run();
                        }
                    });
        }
        assertThat(searches.hasRoom(true)).isFalse();
        // The one thread of the lane never gets to the second.
        searches.awaitRoom(true);
        assertThat(answers).first().isEqualTo(2);
        stuck.countDown();
        searches.drain();
        assertThat(answers).hasSize(SearchExecutor.EXACT_PLACES).doesNotHaveDuplicates();
        assertThat(closed).hasValue(SearchExecutor.EXACT_PLACES);
        assertThat(threads).contains("test-exact-1", "test-urgent-1");
    }

    /** The first never ends by itself: a barrier once waited for such a search for ever. */
    @Test
    void aDrainEndsWithTheDeadlineAndEverySearchHasOneAnswer() throws Exception {
        searches = searches(1, 8, 30);
        CountDownLatch stuck = new CountDownLatch(1);
        for (int number = 1; number <= 8; number++) {
            searches.begin(new HeldTask(number, stuck));
        }
        searches.drain();
        assertThat(answers).containsExactly(-1, -2, -3, -4, -5, -6, -7, -8);
        assertThat(closed).as("the one that runs holds on to its rows").hasValue(7);
        assertThat(searches.hasRoom(false)).isTrue();
        // What it finds in the end is nobody's answer.
        stuck.countDown();
        while (!executor.tryYield()) {
            Thread.onSpinWait();
        }
        assertThat(answers).hasSize(8);
        assertThat(closed).hasValue(8);
        assertThat(searches.inFlight()).isZero();
    }

    @Test
    void aSearchThatWaitedPastItsDeadlineIsNotRun() throws Exception {
        searches = searches(1, 8, 1_000);
        CountDownLatch go = new CountDownLatch(1);
        searches.begin(new HeldTask(1, go));
        searches.begin(new HeldTask(2, new CountDownLatch(0)));
        Thread.sleep(1_001);
        go.countDown();
        // The task is busy elsewhere: it is the pool that finds the second one late.
        while (closed.get() < 2) {
            Thread.onSpinWait();
        }
        while (answers.size() < 2) {
            executor.yield();
        }
        assertThat(answers).containsExactly(1, -2);
    }
}
