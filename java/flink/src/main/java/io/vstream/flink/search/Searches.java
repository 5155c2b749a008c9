package io.vstream.flink.search;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.util.ExceptionUtils;

/**
 * Searches beside the task: each runs on a thread of a small pool, and its answer comes back
 * through the task's mailbox, in the order in which searches end.
 *
 * <ul>
 *   <li><b>Bounded.</b> With as many under way as are allowed the task waits for one to end before
 *       it takes another query, and so does everything upstream.
 *   <li><b>A slow search delays no other</b>, as long as a thread is free.
 *   <li><b>Nothing is under way at a barrier or at the end</b>: the task waits for all answers, so
 *       a checkpoint has a query either before it or in its answer behind it.
 * </ul>
 *
 * For the task thread, but for what the pool does.
 *
 * @param <A> an answer
 */
final class Searches<A> implements AutoCloseable {

    private static final long END_MILLIS = 10_000;

    private final MailboxExecutor mailbox;
    private final int inFlightMax;
    private final Consumer<A> answers;
    private final ThreadPoolExecutor pool;
    private int inFlight;

    /** One search, on a state that was taken when it was asked for. */
    interface Search<A> extends AutoCloseable {

        /** Runs it, on any thread. */
        A run() throws Exception;

        /** Lets go of the state; called once, after {@link #run} or instead of it. */
        @Override
        void close();
    }

    /**
     * @param mailbox of the task
     * @param name of the threads
     * @param threads 1 or more
     * @param inFlightMax searches that may be under way, those that wait for a thread included
     * @param answers receives every answer, in the task thread
     */
    Searches(
            MailboxExecutor mailbox,
            String name,
            int threads,
            int inFlightMax,
            Consumer<A> answers) {
        this.mailbox = mailbox;
        this.inFlightMax = inFlightMax;
        this.answers = answers;
        AtomicInteger number = new AtomicInteger();
        pool =
                new ThreadPoolExecutor(
                        threads,
                        threads,
                        0,
                        TimeUnit.MILLISECONDS,
                        new ArrayBlockingQueue<>(inFlightMax),
                        work -> new Thread(work, name + "-" + number.incrementAndGet()));
    }

    /** Waits until one more search may begin; meanwhile answers come back. */
    void awaitRoom() throws InterruptedException {
        while (inFlight >= inFlightMax) {
            mailbox.yield();
        }
    }

    /** Begins a search, after {@link #awaitRoom}. */
    void begin(Search<A> search) {
        inFlight++;
        pool.execute(new Work<>(this, search));
    }

    /** Waits for all answers. */
    void drain() throws InterruptedException {
        while (inFlight > 0) {
            mailbox.yield();
        }
    }

    /** Searches under way. */
    int inFlight() {
        return inFlight;
    }

    /** Ends the pool; answers that are under way are lost, as everything of the task is. */
    @Override
    public void close() throws InterruptedException {
        for (Runnable waiting : pool.shutdownNow()) {
            ((Work<?>) waiting).search.close();
        }
        pool.awaitTermination(END_MILLIS, TimeUnit.MILLISECONDS);
    }

    private void run(Search<A> search) {
        try {
            // Its state is let go of before anybody can hear of the answer.
            A answer = answered(search);
            mailbox.execute(() -> end(answer), "answer");
        } catch (RejectedExecutionException e) {
            // The task has ended: nobody waits for this answer.
        } catch (Throwable e) {
            // An error, too: a search that never ends would hold up every barrier.
            fail(e);
        }
    }

    private static <A> A answered(Search<A> search) throws Exception {
        try (search) {
            return search.run();
        }
    }

    /** A search that waits for a thread. */
    private record Work<A>(Searches<A> searches, Search<A> search) implements Runnable {
        @Override
        public void run() {
            searches.run(search);
        }
    }

    private void end(A answer) {
        inFlight--;
        answers.accept(answer);
    }

    private void fail(Throwable failure) {
        try {
            mailbox.execute(() -> ExceptionUtils.rethrowException(failure), "failed search");
        } catch (RejectedExecutionException e) {
            // The task has ended: there is nothing left to fail.
        }
    }
}
