package io.vstream.flink.search;

import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows that were found, ascending by their order, or by distance if they have none. The arrays have
 * one length.
 *
 * @param ids of the records, unsigned
 * @param versions of the records
 * @param distances smaller is closer
 * @param order what an answer by another order than that of distances ascends by, whose distances
 *     are these in 32 bits; empty where they are distances. Not a number stands last
 * @param fields what the rows carry of what was asked for; null if nothing was
 */
public record Neighbors(
        long[] ids, long[] versions, float[] distances, double[] order, RowFields[] fields) {

    private static final int SIZE_MAX = 1 << 20;

    /** Set in the number of rows that are followed by what they carry. */
    private static final int WITH_FIELDS = 1 << 31;

    /** Set in the number of rows that are followed by their order. */
    private static final int WITH_ORDER = 1 << 30;

    private static final double[] BY_DISTANCE = new double[0];

    /** Rows by distance, of which nothing else was asked. */
    public Neighbors(long[] ids, long[] versions, float[] distances) {
        this(ids, versions, distances, null);
    }

    /** Rows by distance. */
    public Neighbors(long[] ids, long[] versions, float[] distances, RowFields[] fields) {
        this(ids, versions, distances, BY_DISTANCE, fields);
    }

    /** Nothing found. */
    public static final Neighbors NONE = new Neighbors(new long[0], new long[0], new float[0]);

    /** How many rows there are. */
    public int size() {
        return ids.length;
    }

    /** What a row stands in order of. */
    public double orderOf(int row) {
        return order.length > 0 ? order[row] : distances[row];
    }

    /** Copies the answer that {@code answers} stands at. */
    static Neighbors of(AnswerBatch answers) {
        int size = answers.size();
        Neighbors rows =
                new Neighbors(
                        new long[size],
                        new long[size],
                        new float[size],
                        answers.order(),
                        answers.fields());
        for (int i = 0; i < size; i++) {
            rows.ids[i] = answers.id(i);
            rows.versions[i] = answers.version(i);
            rows.distances[i] = answers.distance(i);
        }
        return rows;
    }

    /** Writes all rows: 20 bytes each, 8 more where they have an order, and what they carry. */
    public void write(DataOutputView out) throws IOException {
        int flags = (fields == null ? 0 : WITH_FIELDS) | (order.length == 0 ? 0 : WITH_ORDER);
        out.writeInt(ids.length | flags);
        for (int i = 0; i < ids.length; i++) {
            out.writeLong(ids[i]);
            out.writeLong(versions[i]);
            out.writeFloat(distances[i]);
        }
        for (double value : order) {
            out.writeDouble(value);
        }
        if (fields != null) {
            for (RowFields one : fields) {
                RowFieldsBlock.write(one, out);
            }
        }
    }

    /** Reads what {@link #write} wrote. */
    public static Neighbors read(DataInputView in) throws IOException {
        int head = in.readInt();
        int size = head & ~(WITH_FIELDS | WITH_ORDER);
        boolean carry = (head & WITH_FIELDS) != 0;
        if (size > SIZE_MAX) {
            throw new IOException("An answer claims " + size + " rows.");
        }
        if (size == 0) {
            return NONE;
        }
        RowFields[] fields = carry ? new RowFields[size] : null;
        double[] order = (head & WITH_ORDER) != 0 ? new double[size] : BY_DISTANCE;
        Neighbors rows =
                new Neighbors(new long[size], new long[size], new float[size], order, fields);
        for (int i = 0; i < size; i++) {
            rows.ids[i] = in.readLong();
            rows.versions[i] = in.readLong();
            rows.distances[i] = in.readFloat();
        }
        for (int i = 0; i < order.length; i++) {
            order[i] = in.readDouble();
        }
        for (int i = 0; carry && i < size; i++) {
            fields[i] = RowFieldsBlock.read(in);
        }
        return rows;
    }
}
