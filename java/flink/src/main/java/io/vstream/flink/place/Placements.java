package io.vstream.flink.place;

import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;

/** Asks a template where a vector goes, through reused buffers. Not for several threads. */
final class Placements implements AutoCloseable {

    private static final int SHARD = 8;

    private final ByteBuffer vectorBuffer;
    private final ByteBuffer buffer =
            BufferLayout.allocate(BufferLayout.PLACEMENTS_MAX * BufferLayout.PLACEMENT_BYTES);
    private NativeRouter router;
    private int count;

    Placements(int dimension, NativeRouter router) {
        this.vectorBuffer = BufferLayout.allocate(BufferLayout.vectorBytes(dimension));
        this.router = router;
    }

    /** Uses another template from now on. */
    void use(NativeRouter next) {
        router.close();
        router = next;
    }

    /** The template. */
    NativeRouter router() {
        return router;
    }

    /** Epoch of the template. */
    long epoch() {
        return router.epoch();
    }

    /** False while rows are only spread by id, to be moved later. */
    boolean placed() {
        return router.placed();
    }

    /** True if ranges may have changed hands, so that only a code says which shard has it now. */
    boolean moving() {
        return router.epoch() > 1 && router.movable();
    }

    /** Shard of a code by this template. */
    int shardOf(long code) {
        return router.shardOf(code);
    }

    /** Places a vector; the other methods then speak of it. */
    void place(long id, float[] vector) {
        BufferLayout.putVector(vectorBuffer, 0, vector);
        count = router.place(id, vectorBuffer, buffer);
    }

    /** Copies of the vector, 1 or more. */
    int count() {
        return count;
    }

    /** Code of copy {@code i}. */
    long code(int i) {
        return buffer.getLong(i * BufferLayout.PLACEMENT_BYTES);
    }

    /** Shard of copy {@code i}. */
    int shard(int i) {
        return buffer.getInt(i * BufferLayout.PLACEMENT_BYTES + SHARD);
    }

    @Override
    public void close() {
        router.close();
    }
}
