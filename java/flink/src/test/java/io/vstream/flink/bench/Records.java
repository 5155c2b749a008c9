package io.vstream.flink.bench;

import io.vstream.flink.source.DatasetFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Keys and values of the records of a topic. JSON is made before anything is timed: making it would
 * take the processors that the job needs.
 */
final class Records {

    private final DatasetFile file;
    private final byte[][] texts;
    private final float[] vector;

    /**
     * @param json true for JSON, false for little-endian floats
     */
    Records(DatasetFile file, boolean json) {
        this.file = file;
        vector = new float[file.dimension()];
        texts = json ? new byte[file.rows()][] : null;
        for (int row = 0; json && row < texts.length; row++) {
            file.read(row, vector);
            texts[row] = utf8(Arrays.toString(vector).replace(" ", ""));
        }
    }

    /** The vector of a row. */
    float[] vector(int row) {
        float[] copy = new float[file.dimension()];
        file.read(row, copy);
        return copy;
    }

    /** The key of an id. */
    byte[] key(long id) {
        return texts == null
                ? ByteBuffer.allocate(Long.BYTES).putLong(id).array()
                : utf8(Long.toString(id));
    }

    /**
     * The value of a record.
     *
     * @param field name of the id in JSON
     */
    byte[] value(String field, long id, int row) {
        if (texts == null) {
            ByteBuffer bytes = ByteBuffer.allocate(vector.length * Float.BYTES);
            file.read(row, vector);
            bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().put(vector);
            return bytes.array();
        }
        byte[] head = utf8("{\"" + field + "\":" + id + ",\"vector\":");
        byte[] text = Arrays.copyOf(head, head.length + texts[row].length + 1);
        System.arraycopy(texts[row], 0, text, head.length, texts[row].length);
        text[text.length - 1] = '}';
        return text;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
