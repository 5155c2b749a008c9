package io.vstream.nativecore;

import java.nio.ByteBuffer;

/**
 * Records on their way into an engine, in one reused direct buffer. Not for several threads.
 *
 * <pre>{@code
 * if (!batch.hasRoom()) {
 *     engine.write(batch.buffer(), batch.count());
 *     batch.clear();
 * }
 * batch.upsert(id, version, code, shard, vector);
 * }</pre>
 */
public final class VectorBatch {

    private static final int VERSION = 8;
    private static final int CODE = 16;
    private static final int SHARD = 24;
    private static final int OP = 26;

    private final int dimension;
    private final int upsertBytes;
    private final ByteBuffer buffer;
    private int count;
    private int bytes;

    /**
     * @param dimension of every vector
     * @param records how many upserts fit, 1 or more
     */
    public VectorBatch(int dimension, int records) {
        this.dimension = dimension;
        this.upsertBytes = BufferLayout.upsertBytes(dimension);
        this.buffer = BufferLayout.allocate(Math.multiplyExact(upsertBytes, records));
    }

    /** True if one more record of any kind fits. */
    public boolean hasRoom() {
        return buffer.capacity() - bytes >= upsertBytes;
    }

    /**
     * Adds an upsert; the vector is copied.
     *
     * @param shard 0 to 127
     * @throws EngineException INVALID for a vector of another dimension or a full batch
     */
    public void upsert(long id, long version, long code, int shard, float[] vector) {
        if (vector.length != dimension) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The vector has "
                            + vector.length
                            + " elements and the collection "
                            + dimension
                            + "; send vectors of the collection's dimension.");
        }
        int at = header(id, version, code, shard, BufferLayout.OP_UPSERT, upsertBytes);
        BufferLayout.putVector(buffer, at + BufferLayout.RECORD_HEADER_BYTES, vector);
    }

    /**
     * Adds a delete.
     *
     * @throws EngineException INVALID for a full batch
     */
    public void delete(long id, long version, long code, int shard) {
        header(id, version, code, shard, BufferLayout.OP_DELETE, BufferLayout.RECORD_HEADER_BYTES);
    }

    /** The buffer to hand to {@link NativeEngine#write}. */
    public ByteBuffer buffer() {
        return buffer;
    }

    /** Records in the batch. */
    public int count() {
        return count;
    }

    /** True if there is nothing to write. */
    public boolean isEmpty() {
        return count == 0;
    }

    /** Bytes that the records take. */
    public int bytes() {
        return bytes;
    }

    /** Forgets the records; the buffer is reused. */
    public void clear() {
        count = 0;
        bytes = 0;
    }

    private int header(long id, long version, long code, int shard, byte op, int length) {
        if (buffer.capacity() - bytes < length) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The batch is full; write and clear it while hasRoom() is false.");
        }
        int at = bytes;
        buffer.putLong(at, id);
        buffer.putLong(at + VERSION, version);
        buffer.putLong(at + CODE, code);
        // One store for shard, op and the five zero bytes: the tail of the header is never stale.
        buffer.putLong(at + SHARD, 0L);
        buffer.putShort(at + SHARD, (short) shard);
        buffer.put(at + OP, op);
        bytes += length;
        count++;
        return at;
    }
}
