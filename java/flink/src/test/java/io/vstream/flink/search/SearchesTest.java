package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
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
class SearchesTest {

    private final TaskMailboxImpl mailbox = new TaskMailboxImpl();
    private final MailboxExecutorImpl executor =
            new MailboxExecutorImpl(
                    mailbox,
                    0,
                    StreamTaskActionExecutor.IMMEDIATE,
                    new MailboxProcessor(controller -> {}));
    private final List<Integer> answers = new ArrayList<>();
    private final AtomicInteger closed = new AtomicInteger();
    private Searches<Integer> searches;

    @AfterEach
    void close() throws Exception {
        searches.close();
    }

    /** A search that waits for somebody. */
    private final class Held implements Searches.Search<Integer> {

        private final int number;
        private final CountDownLatch go;

        private Held(int number, CountDownLatch go) {
            this.number = number;
            this.go = go;
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
        searches = new Searches<>(executor, "test", 2, 16, answers::add);
        CountDownLatch slow = new CountDownLatch(1);
        CountDownLatch open = new CountDownLatch(0);
        searches.begin(new Held(0, slow));
        for (int number = 1; number <= 50; number++) {
            searches.awaitRoom();
            searches.begin(new Held(number, open));
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
        searches = new Searches<>(executor, "test", 1, 3, answers::add);
        CountDownLatch go = new CountDownLatch(1);
        for (int number = 0; number < 3; number++) {
            searches.awaitRoom();
            searches.begin(new Held(number, go));
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
        searches.awaitRoom();
        assertThat(answers).as("one made room").containsExactly(0);
        assertThat(searches.inFlight()).isEqualTo(2);
        searches.begin(new Held(3, go));
        searches.drain();
        assertThat(answers).containsExactly(0, 1, 2, 3);
        assertThat(searches.inFlight()).isZero();
        later.join();
    }

    @Test
    void aFailureFailsTheTask() {
        searches = new Searches<>(executor, "test", 1, 3, answers::add);
        searches.begin(
                new Searches.Search<>() {
                    @Override
                    public Integer run() {
                        throw new IllegalStateException("The file is damaged.");
                    }

                    @Override
                    public void close() {
                        closed.incrementAndGet();
                    }
                });
        assertThatThrownBy(searches::drain).hasStackTraceContaining("The file is damaged.");
        assertThat(closed).hasValue(1);
    }

    /** Such as no memory for a buffer: a query without an answer would hold up every barrier. */
    @Test
    void anErrorFailsTheTaskToo() {
        searches = new Searches<>(executor, "test", 1, 3, answers::add);
        searches.begin(
                new Searches.Search<>() {
                    @Override
                    public Integer run() {
                        throw new OutOfMemoryError("Cannot reserve bytes of direct memory.");
                    }

                    @Override
                    public void close() {
                        closed.incrementAndGet();
                    }
                });
        assertThatThrownBy(searches::drain).hasStackTraceContaining("Cannot reserve bytes");
        assertThat(closed).hasValue(1);
    }

    @Test
    void closingLetsGoOfEverySearchThatWaits() throws Exception {
        searches = new Searches<>(executor, "test", 1, 8, answers::add);
        CountDownLatch never = new CountDownLatch(1);
        for (int number = 0; number < 8; number++) {
            searches.begin(new Held(number, never));
        }
        mailbox.close();
        searches.close();
        // The one that runs is interrupted, the others never begin.
        assertThat(never.await(0, TimeUnit.MILLISECONDS)).isFalse();
        assertThat(closed).hasValue(8);
        assertThat(answers).isEmpty();
    }
}
