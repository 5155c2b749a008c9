package io.vstream.nativecore;

import java.nio.file.Path;
import java.util.List;

/**
 * The state of an engine at one moment, as files that never change. Consecutive states differ by
 * files that were written between them. The engine goes on meanwhile and may be closed before; its
 * directory must stay.
 */
public final class NativeState implements AutoCloseable {

    /** Name of the manifest in a directory that holds a state. */
    public static final String MANIFEST = "COLLECTION";

    private final NativeHandle handle;

    NativeState(long number) {
        this.handle = new NativeHandle("state", number, Bridge::stateClose);
    }

    /**
     * One file of a state.
     *
     * @param name in a directory that holds the state
     * @param key a name that no other content has: what has it need not be kept twice
     * @param bytes its length
     * @param path where it is until the state is closed
     */
    public record File(String name, String key, long bytes, Path path) {

        private static File of(String line) {
            String[] parts = line.split("\t", 4);
            return new File(parts[0], parts[1], Long.parseLong(parts[2]), Path.of(parts[3]));
        }
    }

    /**
     * Waits until the files are whole, on any thread, and returns them. They stay until {@link
     * #close}. Each is read once, whatever the number of states that it is part of.
     *
     * @throws EngineException IO; CLOSED after {@link #close}
     */
    public List<File> files() {
        return Bridge.stateFiles(handle.number()).lines().map(File::of).toList();
    }

    /**
     * The manifest of the state, to be kept as {@link #MANIFEST} beside the files.
     *
     * @throws EngineException CLOSED after {@link #close}
     */
    public byte[] manifest() {
        return Bridge.stateManifest(handle.number());
    }

    /** Lets go of the files; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
