package io.vstream.nativecore;

import java.nio.ByteBuffer;

/** Queries on their way into an engine, in one reused direct buffer. Not for several threads. */
public final class QueryBatch {

    private static final int FLAGS = 4;
    private static final int EFFORT = 4;

    private final int dimension;
    private final int queryBytes;
    private final ByteBuffer buffer;
    private int count;
    private int answerBytes;

    /**
     * @param dimension of every query
     * @param queries how many fit, 1 or more
     */
    public QueryBatch(int dimension, int queries) {
        this.dimension = dimension;
        this.queryBytes = BufferLayout.queryBytes(dimension);
        this.buffer =
                BufferLayout.allocate(
                        Math.addExact(
                                BufferLayout.QUERIES_HEADER_BYTES,
                                Math.multiplyExact(queryBytes, queries)));
        clear();
    }

    /** True if one more query fits. */
    public boolean hasRoom() {
        return buffer.capacity() - end() >= queryBytes;
    }

    /**
     * Adds a query; the vector is copied.
     *
     * @param k neighbours asked for, 1 to 1000
     * @param effort {@link BufferLayout#EFFORT_AUTO}, {@link BufferLayout#EFFORT_EXACT} or the
     *     number of leaves to read
     * @throws EngineException INVALID for a vector of another dimension or a full batch
     */
    public void add(int k, int effort, float[] vector) {
        if (vector.length != dimension) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The query has "
                            + vector.length
                            + " elements and the collection "
                            + dimension
                            + "; send queries of the collection's dimension.");
        }
        if (!hasRoom()) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The batch is full; search and clear it while hasRoom() is false.");
        }
        int at = end();
        buffer.putInt(at, k);
        buffer.putInt(at + EFFORT, effort);
        BufferLayout.putVector(buffer, at + BufferLayout.QUERY_HEADER_BYTES, vector);
        count++;
        buffer.putInt(0, count);
        answerBytes = Math.addExact(answerBytes, BufferLayout.answerBytes(k));
    }

    /** The buffer to hand to {@link NativeEngine#search}. */
    public ByteBuffer buffer() {
        return buffer;
    }

    /** Queries in the batch. */
    public int count() {
        return count;
    }

    /** Bytes that the queries take, with the header. */
    public int bytes() {
        return end();
    }

    /** Bytes that all answers together may need. */
    public int answerBytes() {
        return answerBytes;
    }

    /** Forgets the queries; the buffer is reused. */
    public void clear() {
        count = 0;
        answerBytes = 0;
        buffer.putInt(0, 0);
        buffer.putInt(FLAGS, 0);
    }

    private int end() {
        return BufferLayout.QUERIES_HEADER_BYTES + count * queryBytes;
    }
}
