package io.vstream.flink.handover;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folder through which sealed rows go from one machine to another, on any file system that
 * Flink knows. A hand-over's files lie in a folder of their own, named by run and epoch.
 */
public final class HandoverFolder implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(HandoverFolder.class);

    private final Path folder;
    private ExecutorService deleter;

    /**
     * @param folder of this job alone
     */
    public HandoverFolder(String folder) {
        this.folder = new Path(folder);
    }

    /** The folder of one job below one that jobs share. */
    public static String of(String parent, RuntimeContext job) {
        return of(parent, job.getJobInfo().getJobId());
    }

    /** The folder of one job below one that jobs share. */
    public static String of(String parent, JobID job) {
        return new Path(parent, "handover-" + job).toString();
    }

    /** Copies the files of a local folder to where {@code from} leaves them for {@code to}. */
    public void put(CommandAck ack, int from, int to, java.nio.file.Path local) throws IOException {
        Path target = folder(ack, from, to);
        FileSystem system = target.getFileSystem();
        system.mkdirs(target);
        try (var files = Files.newDirectoryStream(local)) {
            for (java.nio.file.Path file : files) {
                Path copy = new Path(target, file.getFileName().toString());
                try (OutputStream out = system.create(copy, FileSystem.WriteMode.OVERWRITE)) {
                    Files.copy(file, out);
                }
            }
        }
    }

    /** Copies what {@code from} has left for {@code to} into a local folder that is empty. */
    public void get(CommandAck ack, int from, int to, java.nio.file.Path local) throws IOException {
        Path source = folder(ack, from, to);
        FileSystem system = source.getFileSystem();
        FileStatus[] files = system.listStatus(source);
        if (files == null) {
            throw new IOException("Sealed rows are missing: " + source + ".");
        }
        for (FileStatus file : files) {
            try (InputStream in = system.open(file.getPath())) {
                Files.copy(in, local.resolve(file.getPath().getName()));
            }
        }
    }

    /** Removes everything, some time later; what cannot be removed is only warned about. */
    public void deleteAll() {
        if (deleter == null) {
            deleter = Executors.newSingleThreadExecutor(work -> new Thread(work, "vstream-sweep"));
        }
        // Takes the names now: files that another task writes later belong to the next run or
        // epoch.
        FileStatus[] old = list();
        deleter.execute(
                () -> {
                    for (FileStatus one : old) {
                        delete(one.getPath());
                    }
                });
    }

    /**
     * Removes the folder of a job with what is in it now. What comes meanwhile stays, as it is of a
     * job that has begun anew. Files that cannot be removed are only warned about.
     *
     * @param late true once the job may begin anew: files that are only found then may be its own,
     *     and stay
     */
    public static void remove(String folder, BooleanSupplier late) {
        try (HandoverFolder all = new HandoverFolder(folder)) {
            FileStatus[] found = all.list();
            if (late.getAsBoolean()) {
                LOG.warn("{} was not listed in time; delete what is old in it by hand.", folder);
                return;
            }
            for (FileStatus one : found) {
                delete(one.getPath());
            }
            all.deleteIfEmpty();
        }
    }

    private void deleteIfEmpty() {
        try {
            folder.getFileSystem().delete(folder, false);
        } catch (IOException e) {
            LOG.debug("{} is in use again, or a file in it could not be deleted.", folder, e);
        }
    }

    private FileStatus[] list() {
        try {
            FileSystem system = folder.getFileSystem();
            FileStatus[] found = system.exists(folder) ? system.listStatus(folder) : null;
            return found == null ? new FileStatus[0] : found;
        } catch (IOException e) {
            LOG.warn("Could not look into {}.", folder, e);
            return new FileStatus[0];
        }
    }

    private static void delete(Path path) {
        try {
            path.getFileSystem().delete(path, true);
        } catch (IOException e) {
            LOG.warn("Could not delete {}; delete it by hand.", path, e);
        }
    }

    private Path folder(CommandAck ack, int from, int to) {
        String name = Long.toHexString(ack.run()) + "-" + ack.epoch();
        return new Path(new Path(folder, name), from + "-" + to);
    }

    @Override
    public void close() {
        if (deleter != null) {
            deleter.shutdown();
        }
    }
}
