package io.vstream.nativecore;

import java.nio.ByteBuffer;

/** Queries on their way into an engine, in one reused direct buffer. Not for several threads. */
public final class QueryBatch {

    private static final int FLAGS = 4;
    private static final int EFFORT = 4;

    private final int dimension;
    private final int queryBytes;
    private ByteBuffer buffer;
    private int count;
    private int end;
    private boolean asks;
    private boolean wantsFields;
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
        return buffer.capacity() - end >= queryBytes;
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
        if (asks) {
            add(k, effort, vector, Asked.NOTHING);
            return;
        }
        begin(k, effort, vector);
        finish(BufferLayout.answerBytes(k));
    }

    /**
     * Adds a query that asks something beside the nearest rows; what it asks is copied. The buffer
     * grows to hold it. Either all queries of a batch are added with this, or none.
     *
     * @param k neighbours asked for, 1 to 1000
     * @param effort as in {@link #add(int, int, float[])}
     * @throws EngineException INVALID for a vector of another dimension or a full batch, or if a
     *     query of the batch was added without
     */
    public void add(int k, int effort, float[] vector, Asked asked) {
        if (count > 0 && !asks) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "A query of the batch asks nothing; add all with what they ask, or none.");
        }
        int bytes = AskedLayout.bytes(asked);
        // Room for as many queries as before.
        grow(bytes);
        asks = true;
        wantsFields |= asked.wantsFields();
        buffer.putInt(FLAGS, BufferLayout.FLAG_ASKED);
        begin(k, effort, vector);
        AskedLayout.put(buffer, end, asked, bytes);
        end += bytes;
        int order = asked.order().isEmpty() ? 0 : k * BufferLayout.ORDER_BYTES;
        finish(BufferLayout.answerBytes(k) + order);
    }

    private void begin(int k, int effort, float[] vector) {
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
        buffer.putInt(end, k);
        buffer.putInt(end + EFFORT, effort);
        BufferLayout.putVector(buffer, end + BufferLayout.QUERY_HEADER_BYTES, vector);
        end += queryBytes;
    }

    private void finish(int bytes) {
        count++;
        buffer.putInt(0, count);
        answerBytes = Math.addExact(answerBytes, bytes);
    }

    private void grow(int bytes) {
        int needed = Math.addExact(end, Math.addExact(queryBytes, bytes));
        if (buffer.capacity() < needed) {
            buffer =
                    BufferLayout.allocate(Math.max(needed, buffer.capacity() + bytes))
                            .put(0, buffer, 0, end);
        }
    }

    /** True if rows of an answer are to carry something, so that no size bounds the answers. */
    public boolean wantsFields() {
        return wantsFields;
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
        return end;
    }

    /** Bytes that all answers together may need. */
    public int answerBytes() {
        return answerBytes;
    }

    /** Forgets the queries; the buffer is reused. */
    public void clear() {
        count = 0;
        answerBytes = 0;
        asks = false;
        wantsFields = false;
        end = BufferLayout.QUERIES_HEADER_BYTES;
        buffer.putInt(0, 0);
        buffer.putInt(FLAGS, 0);
    }
}
