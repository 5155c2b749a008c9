package io.vstream.flink.row;

import io.vstream.nativecore.RowFields;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Writes and reads what a row carries, layout 1: a byte of flags, then what the flags say: name
 * with its check, attributes, payload, removed columns and group, each with its length first.
 */
public final class RowFieldsBlock {

    private static final int HAS_NAME = 1;
    private static final int HAS_ATTRIBUTES = 2;
    private static final int HAS_PAYLOAD = 4;
    private static final int HAS_UNSET = 8;
    private static final int REMOVES_PAYLOAD = 16;
    private static final int LEFT_OUT = 32;
    private static final int HAS_GROUP = 64;

    /** More than any payload has; a larger length means that the bytes are not ours. */
    private static final int BYTES_MAX = 1 << 21;

    /** Characters that {@code writeUTF} takes whatever they are: three bytes each at most. */
    private static final int UTF_CHARS_MAX = 0xffff / 3;

    private RowFieldsBlock() {}

    /** Writes {@code fields}; one byte if there are none. */
    public static void write(RowFields fields, DataOutputView out) throws IOException {
        out.writeByte(flags(fields));
        if (!fields.name().isEmpty()) {
            write(fields.name().getBytes(StandardCharsets.UTF_8), out);
            out.writeLong(fields.check());
        }
        if (fields.attributes().length > 0) {
            write(fields.attributes(), out);
        }
        if (fields.payload() != null) {
            write(fields.payload(), out);
        }
        if (fields.unset().length > 0) {
            out.writeShort(fields.unset().length);
            for (short column : fields.unset()) {
                out.writeShort(column);
            }
        }
        if (!fields.group().isEmpty()) {
            write(fields.group().getBytes(StandardCharsets.UTF_8), out);
        }
    }

    /** Reads what {@link #write} wrote. */
    public static RowFields read(DataInputView in) throws IOException {
        int flags = in.readByte();
        if (flags == 0) {
            return RowFields.NONE;
        }
        String name = "";
        long check = 0;
        if ((flags & HAS_NAME) != 0) {
            name = new String(bytes(in), StandardCharsets.UTF_8);
            check = in.readLong();
        }
        byte[] attributes = (flags & HAS_ATTRIBUTES) == 0 ? RowFields.NO_ATTRIBUTES : bytes(in);
        byte[] payload = (flags & HAS_PAYLOAD) == 0 ? null : bytes(in);
        short[] unset = RowFields.NO_COLUMNS;
        if ((flags & HAS_UNSET) != 0) {
            unset = new short[in.readUnsignedShort()];
            for (int i = 0; i < unset.length; i++) {
                unset[i] = in.readShort();
            }
        }
        String group =
                (flags & HAS_GROUP) == 0 ? "" : new String(bytes(in), StandardCharsets.UTF_8);
        return new RowFields(
                name,
                check,
                attributes,
                payload,
                unset,
                (flags & REMOVES_PAYLOAD) != 0,
                (flags & LEFT_OUT) != 0,
                group);
    }

    /**
     * Writes bytes, their number first. Of more than 2 MiB only so many: whoever reads them refuses
     * them for their size, as they would have been.
     */
    public static void write(byte[] bytes, DataOutputView out) throws IOException {
        int length = Math.min(bytes.length, BYTES_MAX);
        out.writeInt(length);
        out.write(bytes, 0, length);
    }

    /**
     * Writes a name as {@code writeUTF} does. Of one that is too long for that only a beginning,
     * which is too long for a name as well.
     */
    public static void writeName(String name, DataOutputView out) throws IOException {
        out.writeUTF(name.length() > UTF_CHARS_MAX ? name.substring(0, UTF_CHARS_MAX) : name);
    }

    /** Reads what {@link #write(byte[], DataOutputView)} wrote, up to 2 MiB. */
    public static byte[] bytes(DataInputView in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > BYTES_MAX) {
            throw new IOException("A row claims a field of " + length + " bytes.");
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    private static int flags(RowFields fields) {
        return (fields.name().isEmpty() ? 0 : HAS_NAME)
                | (fields.attributes().length == 0 ? 0 : HAS_ATTRIBUTES)
                | (fields.payload() == null ? 0 : HAS_PAYLOAD)
                | (fields.unset().length == 0 ? 0 : HAS_UNSET)
                | (fields.payloadRemoved() ? REMOVES_PAYLOAD : 0)
                | (fields.leftOut() ? LEFT_OUT : 0)
                | (fields.group().isEmpty() ? 0 : HAS_GROUP);
    }
}
