package io.vstream.nativecore;

import java.nio.ByteBuffer;

/**
 * The rows of an engine at one moment. Writes that came later are not seen; any thread may search,
 * each with its own buffers, and the engine may be closed before.
 */
public final class NativeReadSnapshot implements AutoCloseable {

    private final NativeHandle handle;

    NativeReadSnapshot(long number) {
        this.handle = NativeHandle.frequent("moment", number, Bridge::momentClose);
    }

    /**
     * Answers a batch of queries, all on the rows of this moment; see {@link NativeEngine#search}.
     *
     * @return bytes written to {@code answers}
     * @throws EngineException as {@link NativeEngine#search}; CLOSED after {@link #close}
     */
    public int search(ByteBuffer queries, ByteBuffer answers) {
        return Bridge.momentSearch(
                handle.number(),
                BufferLayout.checked(queries, "queries"),
                BufferLayout.checkedOutput(answers, "answers"));
    }

    /**
     * Answers a batch of queries that ask what rows carry, as {@link #search} does.
     *
     * @return the answers, as long as they are
     * @throws EngineException as {@link #search}
     */
    byte[] searchFields(ByteBuffer queries) {
        return Bridge.momentSearchFields(handle.number(), BufferLayout.checked(queries, "queries"));
    }

    /** Lets go of the rows; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
