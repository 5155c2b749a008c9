package io.vstream.flink.search;

import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows that were found, ascending by distance. The arrays have one length.
 *
 * @param ids of the records, unsigned
 * @param versions of the records
 * @param distances smaller is closer
 * @param fields what the rows carry of what was asked for; null if nothing was
 */
public record Neighbors(long[] ids, long[] versions, float[] distances, RowFields[] fields) {

    private static final int SIZE_MAX = 1 << 20;

    /** Set in the number of rows that are followed by what they carry. */
    private static final int WITH_FIELDS = 1 << 31;

    /** Rows of which nothing else was asked. */
    public Neighbors(long[] ids, long[] versions, float[] distances) {
        this(ids, versions, distances, null);
    }

    /** Nothing found. */
    public static final Neighbors NONE = new Neighbors(new long[0], new long[0], new float[0]);

    /** How many rows there are. */
    public int size() {
        return ids.length;
    }

    /** Copies the answer that {@code answers} stands at. */
    static Neighbors of(AnswerBatch answers) {
        int size = answers.size();
        Neighbors rows =
                new Neighbors(new long[size], new long[size], new float[size], answers.fields());
        for (int i = 0; i < size; i++) {
            rows.ids[i] = answers.id(i);
            rows.versions[i] = answers.version(i);
            rows.distances[i] = answers.distance(i);
        }
        return rows;
    }

    /** Writes all rows: 20 bytes each, and what they carry. */
    public void write(DataOutputView out) throws IOException {
        out.writeInt(fields == null ? ids.length : ids.length | WITH_FIELDS);
        for (int i = 0; i < ids.length; i++) {
            out.writeLong(ids[i]);
            out.writeLong(versions[i]);
            out.writeFloat(distances[i]);
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
        int size = head & ~WITH_FIELDS;
        boolean carry = size != head;
        if (size > SIZE_MAX) {
            throw new IOException("An answer claims " + size + " rows.");
        }
        if (size == 0) {
            return NONE;
        }
        RowFields[] fields = carry ? new RowFields[size] : null;
        Neighbors rows = new Neighbors(new long[size], new long[size], new float[size], fields);
        for (int i = 0; i < size; i++) {
            rows.ids[i] = in.readLong();
            rows.versions[i] = in.readLong();
            rows.distances[i] = in.readFloat();
        }
        for (int i = 0; carry && i < size; i++) {
            fields[i] = RowFieldsBlock.read(in);
        }
        return rows;
    }
}
