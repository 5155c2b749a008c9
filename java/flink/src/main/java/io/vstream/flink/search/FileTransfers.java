package io.vstream.flink.search;

import io.vstream.nativecore.NativeState;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.state.CheckpointStateOutputStream;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.PhysicalStateHandleID;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.filesystem.FileStateHandle;
import org.apache.flink.util.IOUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies files of one partition to where checkpoints are and back, several at once.
 *
 * <p><b>An upload outlives the checkpoint that asked for it.</b> What a checkpoint that was given
 * up had begun goes on, and the next one that wants the same file takes it over, so that a file
 * which takes longer than a checkpoint may is there in the end. Until a checkpoint reports a file
 * nobody else knows of it: what no checkpoint wants any more is deleted here, and so is everything
 * at the end of the task.
 */
final class FileTransfers implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(FileTransfers.class);
    private static final int THREADS = 4;
    private static final int COPY_BYTES = 1 << 16;
    private static final long IDLE_SECONDS = 10;
    private static final long END_SECONDS = 10;

    private final Path brought;
    private final ThreadPoolExecutor pool;
    private final CloseableRegistry streams = new CloseableRegistry();

    /** Uploads that no checkpoint owns, by key of their content. */
    private final Map<String, CompletableFuture<StreamStateHandle>> left = new HashMap<>();

    /** Files that other subtasks may link. */
    private final Map<PhysicalStateHandleID, Path> copied = new ConcurrentHashMap<>();

    private boolean closed;

    /**
     * @param name of the threads
     * @param brought folder for files on their way from a remote level into a savepoint
     */
    FileTransfers(String name, Path brought) {
        this.brought = brought;
        AtomicInteger number = new AtomicInteger();
        pool =
                new ThreadPoolExecutor(
                        THREADS,
                        THREADS,
                        IDLE_SECONDS,
                        TimeUnit.SECONDS,
                        new LinkedBlockingQueue<>(),
                        work -> new Thread(work, name + "-" + number.incrementAndGet()));
        pool.allowCoreThreadTimeOut(true);
    }

    /** A state that is closed by the last one that uses it. */
    static final class Pin {

        private final NativeState state;
        private final AtomicInteger users = new AtomicInteger(1);

        /** Has one user. */
        Pin(NativeState state) {
            this.state = state;
        }

        NativeState state() {
            return state;
        }

        /** One user more. */
        Pin use() {
            users.incrementAndGet();
            return this;
        }

        /** One user less. */
        void release() {
            if (users.decrementAndGet() == 0) {
                state.close();
            }
        }
    }

    /**
     * Where uploads go.
     *
     * @param to makes the streams
     * @param scope of the files; shared ones may be taken over by the next checkpoint
     */
    record Target(CheckpointStreamFactory to, CheckpointedStateScope scope) {

        private boolean shared() {
            return scope == CheckpointedStateScope.SHARED;
        }
    }

    /**
     * Begins the upload of files, or takes over what an earlier checkpoint has begun. The caller
     * owns what comes of them until it calls {@link #giveBack}, or until the JobManager does.
     *
     * @param pin of the state that has the files
     */
    synchronized Map<String, CompletableFuture<StreamStateHandle>> begin(
            Target target, List<NativeState.File> files, Pin pin) throws IOException {
        if (closed) {
            throw new IOException("The task has ended.");
        }
        Map<String, CompletableFuture<StreamStateHandle>> uploads = new HashMap<>();
        for (NativeState.File file : files) {
            CompletableFuture<StreamStateHandle> begun =
                    target.shared() ? left.remove(file.key()) : null;
            if (begun == null || begun.isCompletedExceptionally()) {
                Job job = new Job(this, target, file, pin.use());
                begun = job.done;
                pool.execute(job);
            }
            uploads.put(file.key(), begun);
        }
        if (target.shared()) {
            left.values().forEach(FileTransfers::discard);
            left.clear();
        }
        return uploads;
    }

    /** Takes uploads back of a checkpoint that was given up. */
    void giveBack(Target target, Map<String, CompletableFuture<StreamStateHandle>> uploads) {
        Map<String, CompletableFuture<StreamStateHandle>> unwanted = new HashMap<>(uploads);
        synchronized (this) {
            if (!closed && target.shared()) {
                unwanted.keySet().removeIf(key -> left.putIfAbsent(key, uploads.get(key)) == null);
            }
        }
        unwanted.values().forEach(FileTransfers::discard);
    }

    /**
     * Waits for uploads or for {@code stop}.
     *
     * @throws IOException if one has failed, or if {@code stop} is done
     */
    static void await(
            Iterable<CompletableFuture<StreamStateHandle>> uploads, CompletableFuture<Void> stop)
            throws IOException, InterruptedException {
        CompletableFuture<Void> failed = new CompletableFuture<>();
        List<CompletableFuture<?>> all = new ArrayList<>();
        for (CompletableFuture<StreamStateHandle> upload : uploads) {
            all.add(
                    upload.whenComplete(
                            (handle, e) -> {
                                if (e != null) {
                                    failed.completeExceptionally(e);
                                }
                            }));
        }
        CompletableFuture<Void> whole =
                CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0]));
        try {
            CompletableFuture.anyOf(whole, failed, stop).get();
        } catch (ExecutionException e) {
            throw new IOException("A file of search state could not be copied.", e.getCause());
        }
        if (stop.isDone()) {
            throw new IOException("The checkpoint was given up.");
        }
    }

    /**
     * Copies files to this machine, several at once, and waits for all.
     *
     * @param shareable whether another subtask may get a link to the copy of a file, which is never
     *     written again then; {@link #forgetShared} comes before the copies are removed
     */
    void download(Map<Path, StreamStateHandle> files, Predicate<Path> shareable)
            throws IOException, InterruptedException {
        List<CompletableFuture<StreamStateHandle>> copies = new ArrayList<>();
        for (Map.Entry<Path, StreamStateHandle> file : files.entrySet()) {
            CompletableFuture<StreamStateHandle> done = new CompletableFuture<>();
            copies.add(done);
            pool.execute(
                    () -> {
                        try {
                            fetch(file.getValue(), file.getKey(), shareable.test(file.getKey()));
                            done.complete(file.getValue());
                        } catch (Throwable e) {
                            done.completeExceptionally(e);
                        }
                    });
        }
        await(copies, new CompletableFuture<>());
    }

    /** Nobody links what was copied to this folder any more. */
    void forgetShared(Path folder) {
        copied.entrySet()
                .removeIf(
                        copy -> {
                            boolean isThere = copy.getValue().startsWith(folder);
                            if (isThere) {
                                SharedFetches.OF_PROCESS.forget(copy.getKey(), copy.getValue());
                            }
                            return isThere;
                        });
    }

    private void forgetShared() {
        copied.forEach(SharedFetches.OF_PROCESS::forget);
        copied.clear();
    }

    private void fetch(StreamStateHandle from, Path to, boolean isShareable)
            throws IOException, InterruptedException {
        if (!isShareable) {
            copy(from, to);
            return;
        }
        if (link(from, to)) {
            return;
        }
        PhysicalStateHandleID file = from.getStreamStateHandleID();
        if (SharedFetches.OF_PROCESS.fetch(file, to, () -> copy(from, to))) {
            copied.put(file, to);
        }
    }

    /** Links a file of a checkpoint that lies on this disk; false for any other. */
    private static boolean link(StreamStateHandle from, Path to) {
        if (!(from instanceof FileStateHandle file) || !isLocal(file.getFilePath().toUri())) {
            return false;
        }
        try {
            Files.createLink(to, Path.of(file.getFilePath().toUri().getPath()));
            return true;
        } catch (IOException | UnsupportedOperationException e) {
            // Another disk, or none with links. What is wrong with the file is said by who copies
            // it.
            return false;
        }
    }

    private static boolean isLocal(URI file) {
        return file.getScheme() == null || file.getScheme().equals("file");
    }

    private void copy(StreamStateHandle from, Path to) throws IOException {
        try (InputStream in = from.openInputStream()) {
            streams.registerCloseable(in);
            try {
                Files.copy(in, to);
            } finally {
                streams.unregisterCloseable(in);
            }
        }
    }

    /** One file on its way into a checkpoint. */
    private static final class Job implements Runnable {

        private final FileTransfers transfers;
        private final Target target;
        private final NativeState.File file;
        private final Pin pin;
        private final CompletableFuture<StreamStateHandle> done = new CompletableFuture<>();

        private Job(FileTransfers transfers, Target target, NativeState.File file, Pin pin) {
            this.transfers = transfers;
            this.target = target;
            this.file = file;
            this.pin = pin;
        }

        @Override
        public void run() {
            try {
                if (done.isDone()) {
                    return;
                }
                StreamStateHandle handle =
                        file.path() == null
                                ? transfers.bringAndWrite(target, file, pin.state())
                                : transfers.write(target, file, file.path());
                if (!done.complete(handle)) {
                    delete(handle);
                }
            } catch (Throwable e) {
                done.completeExceptionally(e);
            } finally {
                pin.release();
            }
        }
    }

    /** Of what is in a remote level alone, as much is here at a time as there are threads. */
    private StreamStateHandle bringAndWrite(Target target, NativeState.File file, NativeState state)
            throws IOException {
        Files.createDirectories(brought);
        Path folder = Files.createTempDirectory(brought, "file-");
        try {
            state.bring(file.name(), folder);
            return write(target, file, folder.resolve(file.name()));
        } finally {
            Folders.delete(folder);
        }
    }

    private StreamStateHandle write(Target target, NativeState.File file, Path path)
            throws IOException {
        CheckpointStateOutputStream out = open(target);
        try (InputStream in = Files.newInputStream(path)) {
            copy(in, out);
            return close(out, file.bytes(), streams);
        } catch (IOException | RuntimeException e) {
            streams.unregisterCloseable(out);
            out.close();
            throw e;
        }
    }

    private CheckpointStateOutputStream open(Target target) throws IOException {
        CheckpointStateOutputStream out = target.to.createCheckpointStateOutputStream(target.scope);
        try {
            streams.registerCloseable(out);
        } catch (IOException e) {
            out.close();
            throw e;
        }
        return out;
    }

    private static void copy(InputStream in, OutputStream out) throws IOException {
        byte[] buffer = new byte[COPY_BYTES];
        for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
            out.write(buffer, 0, read);
        }
    }

    /** Ends a file of a checkpoint, unless it was closed from outside, and looks at its length. */
    static StreamStateHandle close(
            CheckpointStateOutputStream out, long expected, CloseableRegistry registry)
            throws IOException {
        if (!registry.unregisterCloseable(out)) {
            throw new IOException("The checkpoint was given up.");
        }
        StreamStateHandle handle = out.closeAndGetHandle();
        if (handle == null) {
            throw new IOException("A file of search state came out empty.");
        }
        if (handle.getStateSize() != expected) {
            delete(handle);
            throw new IOException(
                    "A file of search state has "
                            + expected
                            + " bytes, of which "
                            + handle.getStateSize()
                            + " were uploaded.");
        }
        return handle;
    }

    /** Deletes a file that was uploaded, or sees to it that it will be. */
    private static void discard(CompletableFuture<StreamStateHandle> upload) {
        if (!upload.cancel(false) && !upload.isCompletedExceptionally()) {
            delete(upload.join());
        }
    }

    private static void delete(StreamStateHandle handle) {
        try {
            handle.discardState();
        } catch (Exception e) {
            LOG.warn("Could not delete {}; delete it by hand.", handle, e);
        }
    }

    @Override
    public void close() {
        List<CompletableFuture<StreamStateHandle>> unwanted;
        synchronized (this) {
            closed = true;
            unwanted = List.copyOf(left.values());
            left.clear();
        }
        IOUtils.closeQuietly(streams);
        for (Runnable waiting : pool.shutdownNow()) {
            if (waiting instanceof Job job) {
                job.done.cancel(false);
                job.pin.release();
            }
        }
        unwanted.forEach(FileTransfers::discard);
        try {
            // A running upload deletes its file itself, for which the folder must still exist.
            pool.awaitTermination(END_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        // What was copied until then.
        forgetShared();
    }
}
