package io.vstream.flink.search;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import org.apache.flink.runtime.state.PhysicalStateHandleID;

/**
 * Files that several subtasks of a process fetch at the same time, as after a change of
 * parallelism: one copies a file, and the others link its copy. Safe for several threads.
 *
 * <p>Only for files that are never written again.
 */
final class SharedFetches {

    /** Those of this process. */
    static final SharedFetches OF_PROCESS = new SharedFetches();

    private final Map<PhysicalStateHandleID, CompletableFuture<Path>> begun =
            new ConcurrentHashMap<>();

    /** Fetches a file to a path. */
    interface Copy {
        /** Writes the file; fails if it is there. */
        void run() throws IOException;
    }

    /**
     * Brings a file to {@code to}, by a link if another subtask fetches it, and else by {@code
     * copy}.
     *
     * @return true if it was copied here: the caller calls {@link #forget} before it removes {@code
     *     to}
     */
    boolean fetch(PhysicalStateHandleID file, Path to, Copy copy)
            throws IOException, InterruptedException {
        CompletableFuture<Path> mine = new CompletableFuture<>();
        CompletableFuture<Path> other = begun.putIfAbsent(file, mine);
        if (other == null) {
            try {
                copy.run();
                mine.complete(to);
                return true;
            } catch (Throwable e) {
                begun.remove(file, mine);
                mine.completeExceptionally(e);
                throw e;
            }
        }
        if (!link(other, to)) {
            copy.run();
        }
        return false;
    }

    /** Nobody links the copy of a file any more. */
    void forget(PhysicalStateHandleID file, Path copied) {
        begun.computeIfPresent(file, (key, done) -> copied.equals(done.getNow(null)) ? null : done);
    }

    /** Files that can be linked, or are on their way. */
    int size() {
        return begun.size();
    }

    /** False if the other subtask has failed, has ended, or has another disk. */
    private static boolean link(CompletableFuture<Path> other, Path to)
            throws InterruptedException {
        try {
            Files.createLink(to, other.get());
            return true;
        } catch (ExecutionException | IOException | UnsupportedOperationException e) {
            return false;
        }
    }
}
