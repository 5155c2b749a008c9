package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Answers on their way out of an engine, in one reused direct buffer that grows when it must. A
 * cursor: {@link #next} steps to the answer of the next query. Not for several threads.
 *
 * <pre>{@code
 * answers.search(engine, queries);
 * while (answers.next()) {
 *     for (int row = 0; row < answers.size(); row++) {
 *         use(answers.id(row), answers.distance(row));
 *     }
 * }
 * }</pre>
 */
public final class AnswerBatch {

    private static final int LEAVES = 4;
    private static final int VERSION = 8;
    private static final int DISTANCE = 16;
    private static final int FLAGS = 20;
    private static final int HAS_FIELDS = 1;
    private static final int HAS_ORDER = 2;
    private static final double[] NO_ORDER = new double[0];

    private ByteBuffer buffer = BufferLayout.allocate(BufferLayout.answerBytes(16));
    private int end;
    private int at;
    private int next;

    /** Answers {@code queries} and steps before the first answer. */
    public void search(NativeEngine engine, QueryBatch queries) {
        if (queries.wantsFields()) {
            read(engine.searchFields(queries.buffer()));
            return;
        }
        grow(queries);
        end = engine.search(queries.buffer(), buffer);
    }

    /** Does {@link #search(NativeEngine, QueryBatch)} on the rows of one moment. */
    public void search(NativeReadSnapshot snapshot, QueryBatch queries) {
        if (queries.wantsFields()) {
            read(snapshot.searchFields(queries.buffer()));
            return;
        }
        grow(queries);
        end = snapshot.search(queries.buffer(), buffer);
    }

    private void grow(QueryBatch queries) {
        if (!buffer.isDirect() || buffer.capacity() < queries.answerBytes()) {
            buffer = BufferLayout.allocate(queries.answerBytes());
        }
        end = 0;
        next = 0;
    }

    private void read(byte[] answers) {
        read(ByteBuffer.wrap(answers).order(ByteOrder.nativeOrder()), answers.length);
    }

    /** Steps before the first answer of a buffer that holds {@code bytes} bytes of answers. */
    void read(ByteBuffer answers, int bytes) {
        buffer = answers;
        end = bytes;
        next = 0;
    }

    /** Steps to the next answer; false after the last. */
    public boolean next() {
        if (next >= end) {
            return false;
        }
        at = next;
        next = fieldsAt();
        for (int row = 0; row < size(); row++) {
            if (hasFields(row)) {
                next += FieldsLayout.bytesAt(buffer, next);
            }
        }
        return true;
    }

    /** Neighbours in this answer. */
    public int size() {
        return buffer.getInt(at);
    }

    /** Leaves that the engine read for this answer. */
    public int leavesScanned() {
        int leaves = buffer.getInt(at + LEAVES);
        return leaves < 0 ? -1 - leaves : leaves;
    }

    /** True if rows were left out, as they lie in a remote level that gave no answer. */
    public boolean partial() {
        return buffer.getInt(at + LEAVES) < 0;
    }

    /** Id of a neighbour, nearest first. */
    public long id(int row) {
        return buffer.getLong(neighbor(row));
    }

    /** Version of a neighbour's record. */
    public long version(int row) {
        return buffer.getLong(neighbor(row) + VERSION);
    }

    /**
     * Distance of a neighbour; smaller is closer. Where the answer is in another order, what it is
     * in order of, as near as 32 bits come to it.
     */
    public float distance(int row) {
        return buffer.getFloat(neighbor(row) + DISTANCE);
    }

    /**
     * What the neighbours ascend by, one for each; empty if that is the distance. Not a number
     * stands last.
     */
    public double[] order() {
        if (!hasOrder()) {
            return NO_ORDER;
        }
        double[] order = new double[size()];
        for (int row = 0; row < order.length; row++) {
            order[row] = buffer.getDouble(orderAt() + row * BufferLayout.ORDER_BYTES);
        }
        return order;
    }

    /**
     * What each neighbour carries; null if they carry nothing. Cost: a copy of all of it.
     *
     * @return one for each neighbour
     */
    public RowFields[] fields() {
        int size = size();
        RowFields[] fields = null;
        int block = fieldsAt();
        for (int row = 0; row < size; row++) {
            if (hasFields(row)) {
                if (fields == null) {
                    fields = new RowFields[size];
                    Arrays.fill(fields, RowFields.NONE);
                }
                fields[row] = FieldsLayout.read(buffer, block);
                block += FieldsLayout.bytesAt(buffer, block);
            }
        }
        return fields;
    }

    private boolean hasFields(int row) {
        return (buffer.getInt(neighbor(row) + FLAGS) & HAS_FIELDS) != 0;
    }

    private boolean hasOrder() {
        return size() > 0 && (buffer.getInt(neighbor(0) + FLAGS) & HAS_ORDER) != 0;
    }

    private int orderAt() {
        return at + BufferLayout.answerBytes(size());
    }

    private int fieldsAt() {
        return orderAt() + (hasOrder() ? size() * BufferLayout.ORDER_BYTES : 0);
    }

    private int neighbor(int row) {
        if (row < 0 || row >= size()) {
            throw new IndexOutOfBoundsException("Row " + row + " of an answer with " + size());
        }
        return at + BufferLayout.ANSWER_HEADER_BYTES + row * BufferLayout.NEIGHBOR_BYTES;
    }
}
