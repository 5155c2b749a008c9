package io.vstream.nativecore;

import java.nio.file.Path;
import java.util.List;

/**
 * The state of an engine at one moment, as files that never change. Of the files of consecutive
 * states most are the same. The engine goes on meanwhile and may be closed before; its directory
 * must stay.
 */
public final class NativeCapture implements AutoCloseable {

    /** Name of the manifest in a directory of a captured state. */
    public static final String MANIFEST = "CAPTURED";

    private final NativeHandle handle;

    NativeCapture(long number) {
        this.handle = new NativeHandle("capture", number, Bridge::captureClose);
    }

    /**
     * One file of a state.
     *
     * @param name new for every content in the life of an engine and of those assembled from it
     * @param bytes its length
     * @param firstShard of those that it speaks of
     * @param lastShard of those that it speaks of
     * @param path where it is until the capture is closed
     */
    public record File(String name, long bytes, int firstShard, int lastShard, Path path) {

        private static File of(String line) {
            String[] parts = line.split("\t", 5);
            return new File(
                    parts[0],
                    Long.parseLong(parts[1]),
                    Integer.parseInt(parts[2]),
                    Integer.parseInt(parts[3]),
                    Path.of(parts[4]));
        }
    }

    /**
     * Writes the files that are missing, on any thread, and returns all files of the state. They
     * stay until {@link #close}.
     *
     * @throws EngineException IO; CLOSED after {@link #close}
     */
    public List<File> write() {
        return Bridge.captureWrite(handle.number()).lines().map(File::of).toList();
    }

    /**
     * The manifest of the state, after {@link #write}.
     *
     * @throws EngineException INVALID before {@link #write}; CLOSED after {@link #close}
     */
    public byte[] manifest() {
        return Bridge.captureManifest(handle.number());
    }

    /** Lets go of the files; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
