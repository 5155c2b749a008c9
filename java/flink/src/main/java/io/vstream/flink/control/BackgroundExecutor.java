package io.vstream.flink.control;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.function.ThrowingConsumer;

/**
 * A thread beside the task's for work that takes seconds, so that records and barriers pass
 * meanwhile. The result comes back in the task's thread. A failure fails the task.
 */
public final class BackgroundExecutor implements AutoCloseable {

    private final String name;
    private final MailboxExecutor mailbox;
    private final ExecutorService thread;
    private volatile boolean closed;

    /**
     * @param name of the thread
     * @param mailbox of the operator
     */
    public BackgroundExecutor(String name, MailboxExecutor mailbox) {
        this.name = name;
        this.mailbox = mailbox;
        this.thread =
                Executors.newSingleThreadExecutor(
                        work -> {
                            Thread made = new Thread(work, name);
                            made.setDaemon(true);
                            return made;
                        });
    }

    /** Does {@code work} in the thread, and then {@code next} with its result in the task's. */
    public <T> void run(Callable<T> work, ThrowingConsumer<T, Exception> next) {
        thread.execute(
                () -> {
                    T result;
                    try {
                        result = work.call();
                    } catch (Throwable e) {
                        // An error, too: the task would wait for ever for what does not come.
                        mail(
                                () -> {
                                    ExceptionUtils.rethrowException(e);
                                    return null;
                                },
                                next);
                        return;
                    }
                    mail(() -> result, next);
                });
    }

    private <T> void mail(Callable<T> result, ThrowingConsumer<T, Exception> next) {
        if (closed) {
            return;
        }
        try {
            mailbox.execute(
                    () -> {
                        if (!closed) {
                            next.accept(result.call());
                        }
                    },
                    name);
        } catch (RejectedExecutionException e) {
            // The task has ended: nobody waits for this.
        }
    }

    /** Waits for nothing: work that is under way ends by itself and its result is dropped. */
    @Override
    public void close() {
        closed = true;
        thread.shutdownNow();
    }
}
