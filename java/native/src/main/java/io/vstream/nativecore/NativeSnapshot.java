package io.vstream.nativecore;

import java.nio.file.Path;
import java.util.Objects;

/**
 * The live rows of one moment of an engine, which goes on meanwhile. Any thread may write them; the
 * engine may be closed before.
 */
public final class NativeSnapshot implements AutoCloseable {

    private final NativeHandle handle;

    NativeSnapshot(long number) {
        this.handle = new NativeHandle("snapshot", number, Bridge::snapshotClose);
    }

    /**
     * Writes every row to {@code directory}: one {@code shard-NNN.rows} per shard that has rows,
     * and a MANIFEST last.
     *
     * @param directory is created; must not hold a snapshot yet
     * @param synced whether every file is forced to the disk; not needed where they are copied to
     *     their place at once
     * @throws EngineException IO if the directory cannot be written; CLOSED after {@link #close}
     */
    public void write(Path directory, boolean synced) {
        Bridge.snapshotWrite(handle.number(), absolute(directory), synced);
    }

    /**
     * Writes the rows of ranges that leave, with the shards that they go to, as a snapshot.
     *
     * @param directory is created; must not hold a snapshot yet
     * @return how many rows
     * @throws EngineException IO if the directory cannot be written; CLOSED after {@link #close}
     */
    public long writeMoved(Path directory, MovedRanges ranges) {
        return Bridge.snapshotWriteMoved(handle.number(), absolute(directory), ranges.bytes());
    }

    /** Lets go of the rows; idempotent. */
    @Override
    public void close() {
        handle.close();
    }

    static String absolute(Path directory) {
        return Objects.requireNonNull(directory, "directory").toAbsolutePath().toString();
    }
}
