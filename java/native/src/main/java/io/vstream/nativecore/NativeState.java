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
     * @param path where it is until the state is closed; null if it must be brought first ({@link
     *     #bring})
     */
    public record File(String name, String key, long bytes, Path path) {

        private static File of(String line) {
            String[] parts = line.split("\t", 4);
            Path path = parts[3].isEmpty() ? null : Path.of(parts[3]);
            return new File(parts[0], parts[1], Long.parseLong(parts[2]), path);
        }
    }

    /**
     * Waits until the files are whole, on any thread, and returns them. They stay until {@link
     * #close}. Each is read once, whatever the number of states that it is part of.
     *
     * <p>For rows in a remote level there are small files that say where these are. Whoever opens a
     * copy of them reads the rows there, so the state must be kept open as long as somebody may:
     * see {@link #releaseCopied}.
     *
     * @throws EngineException IO; CLOSED after {@link #close}
     */
    public List<File> files() {
        return files(false);
    }

    /**
     * As {@link #files}, with every row: a copy of these needs no remote level. What is there alone
     * has no path and must be brought.
     *
     * @throws EngineException IO; CLOSED after {@link #close}
     */
    public List<File> wholeFiles() {
        return files(true);
    }

    private List<File> files(boolean whole) {
        return Bridge.stateFiles(handle.number(), whole).lines().map(File::of).toList();
    }

    /**
     * Copies a file of {@link #wholeFiles} that has no path into a directory, under its name.
     *
     * @throws EngineException UNAVAILABLE if the remote level gives no answer, IO
     */
    public void bring(String name, Path directory) {
        Bridge.stateBring(handle.number(), name, NativeSnapshot.absolute(directory));
    }

    /**
     * Copies what the state has in the remote level of earlier engines, so that it needs nothing of
     * theirs. Comes before {@link #files}.
     *
     * @throws EngineException UNAVAILABLE if the remote level gives no answer, IO
     */
    public void makeOwn() {
        Bridge.stateMakeOwn(handle.number());
    }

    /**
     * Lets go of the files of {@link #files}, which were copied.
     *
     * @return true if the copies lead to a remote level: then the state must stay open until nobody
     *     will open them any more
     */
    public boolean releaseCopied() {
        return Bridge.stateReleaseCopied(handle.number());
    }

    /**
     * Has nothing in the remote level deleted from now on, by the engine either. Comes before
     * {@link #close} if the engine ends, though copies of the state may be opened yet.
     */
    public void endDeletes() {
        Bridge.stateEndDeletes(handle.number());
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
