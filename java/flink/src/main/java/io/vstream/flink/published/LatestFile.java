package io.vstream.flink.published;

import java.io.IOException;
import org.apache.flink.core.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a published file at its newest content, from a thread of its own: neither a task nor the
 * JobManager waits for the file system. What fails is tried again until there is newer content.
 */
public final class LatestFile implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(LatestFile.class);
    private static final long RETRY_MILLIS = 1_000;
    private static final long END_MILLIS = 5_000;

    private final Path path;
    private final Thread thread;
    private byte[] newest;
    private boolean closed;

    /** Publishes at {@code path}. */
    public LatestFile(Path path) {
        this.path = path;
        thread = new Thread(this::run, "vstream-publish");
        thread.setDaemon(true);
        thread.start();
    }

    /** Publishes this content, in place of any that was not written yet. */
    public synchronized void publish(byte[] content) {
        newest = content;
        notifyAll();
    }

    private void run() {
        try {
            byte[] content = next();
            while (content != null) {
                if (!write(content)) {
                    pause(content);
                }
                content = next();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized byte[] next() throws InterruptedException {
        while (newest == null && !closed) {
            wait();
        }
        byte[] content = newest;
        newest = null;
        return content;
    }

    private boolean write(byte[] content) {
        try {
            PublishedFile.write(path, content);
            return true;
        } catch (IOException e) {
            LOG.warn("{} could not be written; it is tried again.", path, e);
            return false;
        }
    }

    /** Waits a while, and takes the content up again unless there is newer one. */
    private synchronized void pause(byte[] content) throws InterruptedException {
        if (!closed) {
            wait(RETRY_MILLIS);
        }
        if (newest == null && !closed) {
            newest = content;
        }
    }

    /** Writes what is left, and ends the thread. */
    @Override
    public void close() throws InterruptedException {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        thread.join(END_MILLIS);
        thread.interrupt();
    }
}
