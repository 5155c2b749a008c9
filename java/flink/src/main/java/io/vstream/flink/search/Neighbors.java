package io.vstream.flink.search;

import io.vstream.nativecore.AnswerBatch;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows that were found, ascending by distance. The three arrays have one length.
 *
 * @param ids of the records, unsigned
 * @param versions of the records
 * @param distances smaller is closer
 */
public record Neighbors(long[] ids, long[] versions, float[] distances) {

    private static final int SIZE_MAX = 1 << 20;

    /** Nothing found. */
    public static final Neighbors NONE = new Neighbors(new long[0], new long[0], new float[0]);

    /** How many rows there are. */
    public int size() {
        return ids.length;
    }

    /** Copies the answer that {@code answers} stands at. */
    static Neighbors of(AnswerBatch answers) {
        int size = answers.size();
        Neighbors rows = new Neighbors(new long[size], new long[size], new float[size]);
        for (int i = 0; i < size; i++) {
            rows.ids[i] = answers.id(i);
            rows.versions[i] = answers.version(i);
            rows.distances[i] = answers.distance(i);
        }
        return rows;
    }

    /** Writes all rows: 20 bytes each. */
    public void write(DataOutputView out) throws IOException {
        out.writeInt(ids.length);
        for (int i = 0; i < ids.length; i++) {
            out.writeLong(ids[i]);
            out.writeLong(versions[i]);
            out.writeFloat(distances[i]);
        }
    }

    /** Reads what {@link #write} wrote. */
    public static Neighbors read(DataInputView in) throws IOException {
        int size = in.readInt();
        if (size < 0 || size > SIZE_MAX) {
            throw new IOException("An answer claims " + size + " rows.");
        }
        if (size == 0) {
            return NONE;
        }
        Neighbors rows = new Neighbors(new long[size], new long[size], new float[size]);
        for (int i = 0; i < size; i++) {
            rows.ids[i] = in.readLong();
            rows.versions[i] = in.readLong();
            rows.distances[i] = in.readFloat();
        }
        return rows;
    }
}
