package io.vstream.flink.search;

import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;

/**
 * Runs native work that cannot be interrupted, so that the task can be: Flink ends the whole task
 * manager of a task that does not listen. The work goes on by itself and its result is let go of.
 */
final class InterruptibleRestore {

    private InterruptibleRestore() {}

    /**
     * Waits for the result of {@code work}, which runs in a thread of its own.
     *
     * @param name of the thread
     * @param letGo receives the result that comes after the wait was interrupted, or null if the
     *     work failed then; in that thread
     */
    static <T> T run(String name, Callable<T> work, Consumer<T> letGo)
            throws IOException, InterruptedException {
        CompletableFuture<T> result = new CompletableFuture<>();
        Runnable whole =
                () -> {
                    try {
                        T made = work.call();
                        if (!result.complete(made)) {
                            letGo.accept(made);
                        }
                    } catch (Throwable e) {
                        if (!result.completeExceptionally(e)) {
                            letGo.accept(null);
                        }
                    }
                };
        new Thread(whole, name).start();
        try {
            return result.get();
        } catch (InterruptedException e) {
            if (!result.cancel(false) && !result.isCompletedExceptionally()) {
                letGo.accept(result.join());
            }
            throw e;
        } catch (ExecutionException e) {
            throw failure(e.getCause());
        }
    }

    private static IOException failure(Throwable cause) {
        if (cause instanceof RuntimeException e) {
            throw e;
        }
        if (cause instanceof Error e) {
            throw e;
        }
        return cause instanceof IOException e ? e : new IOException(cause);
    }
}
