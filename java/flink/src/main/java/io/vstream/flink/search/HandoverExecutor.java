package io.vstream.flink.search;

import io.vstream.nativecore.NativeEngine;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.util.ExceptionUtils;

/**
 * Threads for a hand-over: one beside the task's, for files and for walks over all rows, and the
 * task's own. A failure in either fails the task.
 */
final class HandoverExecutor implements HandoverParticipant.Host, AutoCloseable {

    private final NativeEngine engine;
    private final Runnable applyWrites;
    private final MailboxExecutor mailbox;
    private final ProcessingTimeService clock;
    private final ExecutorService thread;
    private volatile boolean closed;

    /**
     * @param name of the thread
     * @param engine of the partition
     * @param applyWrites applies the writes that wait in the operator
     */
    HandoverExecutor(
            String name,
            NativeEngine engine,
            Runnable applyWrites,
            MailboxExecutor mailbox,
            ProcessingTimeService clock) {
        this.engine = engine;
        this.applyWrites = applyWrites;
        this.mailbox = mailbox;
        this.clock = clock;
        this.thread = Executors.newSingleThreadExecutor(work -> new Thread(work, name));
    }

    @Override
    public NativeEngine engine() {
        return engine;
    }

    @Override
    public void applyWrites() {
        applyWrites.run();
    }

    @Override
    public void schedule(long millis, HandoverParticipant.Work work) {
        clock.registerTimer(clock.getCurrentProcessingTime() + millis, time -> work.run());
    }

    @Override
    public <T> void executeAsync(Callable<T> work, Consumer<T> next) {
        thread.execute(
                () -> {
                    T result;
                    try {
                        result = work.call();
                    } catch (Throwable e) {
                        // An error, too: a hand-over that never ends would hold up all others.
                        mail(() -> ExceptionUtils.rethrowException(e));
                        return;
                    }
                    mail(() -> next.accept(result));
                });
    }

    private void mail(HandoverParticipant.Work work) {
        if (closed) {
            return;
        }
        try {
            mailbox.execute(
                    () -> {
                        if (!closed) {
                            work.run();
                        }
                    },
                    "hand-over");
        } catch (RejectedExecutionException e) {
            // The task has ended: nobody waits for this.
        }
    }

    @Override
    public void close() {
        closed = true;
        thread.shutdownNow();
    }
}
