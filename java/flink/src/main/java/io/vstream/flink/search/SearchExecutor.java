package io.vstream.flink.search;

import io.vstream.nativecore.NativeThread;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.util.ExceptionUtils;

/**
 * Searches beside the task: each runs on a thread of a small pool, and its answer comes back
 * through the task's mailbox, in the order in which searches end.
 *
 * <ul>
 *   <li><b>Bounded.</b> A search begins only where there is a place; what becomes of a query
 *       without one is up to the operator.
 *   <li><b>Two lanes.</b> Searches that read every row have threads and places of their own, so
 *       that they are never in the way of the others: where there are more threads than cores they
 *       compute last. Few places, so that a barrier soon passes; and while the task itself waits
 *       for one of them, others of them run on threads that compute as it does.
 *   <li><b>A slow search delays no other</b> of its lane, as long as a thread is free.
 *   <li><b>Every search has an answer soon after its deadline.</b> One that still waits is not run;
 *       of one that runs, the late answer is dropped.
 *   <li><b>Nothing is under way at a barrier or at the end</b>: the task waits for all answers, so
 *       a checkpoint has a query either before it or in its answer behind it.
 * </ul>
 *
 * For the task thread, but for what the pools do.
 *
 * @param <A> an answer
 */
final class SearchExecutor<A> implements AutoCloseable {

    private static final long END_MILLIS = 10_000;

    /**
     * Places per thread of the exact lane, whatever the settings give the usual one: a search there
     * takes long, and a barrier waits for all of them.
     */
    static final int EXACT_PLACES = 8;

    /**
     * How long the task waits for exact searches, while there are some, before others of them run
     * on threads that do not compute last. On busy cores a barrier and all writes would else wait
     * for what nobody else waits for.
     */
    private static final long PATIENCE_NANOS = 50_000_000;

    private static final long IDLE_MILLIS = 1_000;

    /** How long a wait sleeps at most: answers wake it, other mails and deadlines do not. */
    private static final long SLEEP_NANOS = 1_000_000;

    private final MailboxExecutor mailbox;
    private final long deadlineNanos;
    private final Consumer<A> answers;
    private final Lane usual;
    private final Lane exact;

    /** For exact searches that the task waits for; without threads at other times. */
    private final ThreadPoolExecutor urgent;

    /** Exact searches that run, those that had their answer before they ended included. */
    private final AtomicInteger exactRuns = new AtomicInteger();

    /** How long the task has waited for searches since no exact one was under way. */
    private long waitedNanos;

    /** Searches without an answer, the oldest first. */
    private final Set<Work<A>> underWay = new LinkedHashSet<>();

    /** The task's thread while it waits for answers, else null. */
    private volatile Thread waiting;

    /** One search, on a state that was taken when it was asked for. */
    interface Task<A> extends AutoCloseable {

        /** Whether it reads every row. */
        boolean exact();

        /** Runs it, on any thread. */
        A run() throws Exception;

        /** The answer of a search that was not run. */
        A shed();

        /** Lets go of the state; called once, after {@link #run} or instead of it. */
        @Override
        void close();
    }

    /**
     * @param mailbox of the task
     * @param name of the threads
     * @param settings has 1 thread or more
     * @param answers receives every answer, in the task thread
     */
    SearchExecutor(
            MailboxExecutor mailbox, String name, SearchSettings settings, Consumer<A> answers) {
        this.mailbox = mailbox;
        this.deadlineNanos = TimeUnit.MILLISECONDS.toNanos(settings.deadlineMillis());
        this.answers = answers;
        int threads = settings.threads();
        int places = settings.inFlight();
        usual = new Lane(name, threads, places, () -> {});
        exact =
                new Lane(
                        name + "-exact",
                        threads,
                        Math.min(places, threads * EXACT_PLACES),
                        NativeThread::yieldToOthers);
        urgent = pool(name + "-urgent", threads, IDLE_MILLIS, () -> {});
        urgent.allowCoreThreadTimeOut(true);
    }

    /**
     * @param begin what each thread does first
     */
    private static ThreadPoolExecutor pool(
            String name, int threads, long idleMillis, Runnable begin) {
        AtomicInteger number = new AtomicInteger();
        return new ThreadPoolExecutor(
                threads,
                threads,
                idleMillis,
                TimeUnit.MILLISECONDS,
                new LinkedBlockingQueue<>(),
                work -> {
                    Runnable all =
                            () -> {
                                begin.run();
                                work.run();
                            };
                    return new Thread(all, name + "-" + number.incrementAndGet());
                });
    }

    /** Threads, and how many searches have a place here. */
    private static final class Lane {

        private final ThreadPoolExecutor pool;
        private final int places;
        private int taken;

        /**
         * @param begin what each thread does first
         */
        private Lane(String name, int threads, int places, Runnable begin) {
            this.places = places;
            pool = pool(name, threads, 0, begin);
        }
    }

    /** True if one more search may begin. */
    boolean hasRoom(boolean forExact) {
        Lane lane = lane(forExact);
        return lane.taken < lane.places;
    }

    /** Waits until one more search may begin; meanwhile answers come back. */
    void awaitRoom(boolean forExact) throws InterruptedException {
        waiting = Thread.currentThread();
        while (!hasRoom(forExact)) {
            if (forExact) {
                hasten();
                waitedNanos += look();
            } else {
                look();
            }
        }
        waiting = null;
    }

    /** Begins a search, where there is room. */
    void begin(Task<A> search) {
        Lane lane = lane(search.exact());
        lane.taken++;
        Work<A> work = new Work<>(this, search, System.nanoTime() + deadlineNanos);
        underWay.add(work);
        lane.pool.execute(work);
    }

    /** Waits for all answers; takes no longer than the deadline of the newest search. */
    void drain() throws InterruptedException {
        waiting = Thread.currentThread();
        while (!underWay.isEmpty()) {
            hasten();
            waitedNanos += look();
        }
        waiting = null;
    }

    /**
     * Where the task has waited for some time while the oldest exact search runs, gives another one
     * a thread that does not yield.
     */
    private void hasten() {
        if (waitedNanos < PATIENCE_NANOS || !urgent.getQueue().isEmpty() || !runsLong()) {
            return;
        }
        Runnable next = exact.pool.getQueue().poll();
        if (next != null) {
            urgent.execute(next);
        }
    }

    /**
     * True if the oldest exact search has run for some time, or waits for one that runs though it
     * had its answer.
     */
    private boolean runsLong() {
        for (Work<A> work : underWay) {
            if (work.search.exact()) {
                return work.runs
                        ? System.nanoTime() - work.beganNanos >= PATIENCE_NANOS
                        : exactRuns.get() > 0;
            }
        }
        return false;
    }

    /** Answers searches that are past their deadline, without a search. */
    void shedLate() {
        long now = System.nanoTime();
        List<Work<A>> late = new ArrayList<>();
        Iterator<Work<A>> oldest = underWay.iterator();
        while (oldest.hasNext()) {
            Work<A> work = oldest.next();
            if (!work.late(now)) {
                break;
            }
            late.add(work);
        }
        for (Work<A> work : late) {
            if (work.begun.compareAndSet(false, true)) {
                lane(work.search.exact()).pool.remove(work);
                urgent.remove(work);
                work.search.close();
            }
            end(work, work.search.shed());
        }
    }

    /** Searches under way. */
    int inFlight() {
        return underWay.size();
    }

    /** Ends the pools; answers that are under way are lost, as everything of the task is. */
    @Override
    public void close() throws InterruptedException {
        usual.pool.shutdownNow();
        exact.pool.shutdownNow();
        urgent.shutdownNow();
        for (Work<A> work : underWay) {
            if (work.begun.compareAndSet(false, true)) {
                work.search.close();
            }
        }
        usual.pool.awaitTermination(END_MILLIS, TimeUnit.MILLISECONDS);
        exact.pool.awaitTermination(END_MILLIS, TimeUnit.MILLISECONDS);
        urgent.awaitTermination(END_MILLIS, TimeUnit.MILLISECONDS);
    }

    private Lane lane(boolean forExact) {
        return forExact ? exact : usual;
    }

    /**
     * Takes an answer if there is one, else waits a moment: a mailbox has no wait with a limit.
     *
     * @return how long it waited, in nanoseconds
     */
    private long look() throws InterruptedException {
        shedLate();
        if (mailbox.tryYield()) {
            return 0;
        }
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long began = System.nanoTime();
        LockSupport.parkNanos(SLEEP_NANOS);
        return System.nanoTime() - began;
    }

    /** A search that waits for a thread or runs. */
    private static final class Work<A> implements Runnable {

        private final SearchExecutor<A> searches;
        private final Task<A> search;
        private final long dueNanos;

        /** The thread that sets it releases the search's state. */
        private final AtomicBoolean begun = new AtomicBoolean();

        private long beganNanos;

        /** Set after the time from which it runs. */
        private volatile boolean runs;

        private Work(SearchExecutor<A> searches, Task<A> search, long dueNanos) {
            this.searches = searches;
            this.search = search;
            this.dueNanos = dueNanos;
        }

        private boolean late(long now) {
            return now - dueNanos >= 0;
        }

        @Override
        public void run() {
            if (begun.compareAndSet(false, true)) {
                beganNanos = System.nanoTime();
                runs = true;
                searches.exactRuns.addAndGet(search.exact() ? 1 : 0);
                searches.run(this);
            }
        }

        private A answered() throws Exception {
            try (search) {
                return late(System.nanoTime()) ? search.shed() : search.run();
            } finally {
                searches.exactRuns.addAndGet(search.exact() ? -1 : 0);
            }
        }
    }

    private void run(Work<A> work) {
        try {
            // Its state is let go of before anybody can hear of the answer.
            A answer = work.answered();
            mailbox.execute(() -> end(work, answer), "answer");
            LockSupport.unpark(waiting);
        } catch (RejectedExecutionException e) {
            // The task has ended: nobody waits for this answer.
        } catch (Throwable e) {
            // An error, too: a search that never ends would hold up every barrier.
            fail(e);
        }
    }

    private void end(Work<A> work, A answer) {
        if (underWay.remove(work)) {
            lane(work.search.exact()).taken--;
            waitedNanos = exact.taken > 0 ? waitedNanos : 0;
            answers.accept(answer);
        }
    }

    private void fail(Throwable failure) {
        try {
            mailbox.execute(() -> ExceptionUtils.rethrowException(failure), "failed search");
            LockSupport.unpark(waiting);
        } catch (RejectedExecutionException e) {
            // The task has ended: there is nothing left to fail.
        }
    }
}
