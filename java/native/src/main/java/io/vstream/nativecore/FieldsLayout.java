package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Reads and writes {@code fields} blocks, see {@link BufferLayout}. */
final class FieldsLayout {

    private static final int FLAGS = 4;
    private static final int UNSET = 6;
    private static final int CHECK = 8;
    private static final int NAME = 16;
    private static final int ATTRIBUTES = 20;
    private static final int PAYLOAD = 24;
    private static final int GROUP = 28;
    private static final int HEADER = 32;

    private static final int HAS_PAYLOAD = 1;
    private static final int REMOVES_PAYLOAD = 2;
    private static final int LEFT_OUT = 4;

    private FieldsLayout() {}

    /** The bytes of a block with this name. */
    static int bytes(RowFields fields, byte[] name) {
        long payload = fields.payload() == null ? 0 : fields.payload().length;
        long all =
                HEADER
                        + (long) name.length
                        + fields.attributes().length
                        + payload
                        + (long) fields.unset().length * Short.BYTES
                        + group(fields).length;
        return Math.toIntExact(all + 7 & ~7L);
    }

    /** The name as it stands in a block. */
    static byte[] name(RowFields fields) {
        return fields.name().getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] group(RowFields fields) {
        return fields.group().isEmpty()
                ? RowFields.NO_ATTRIBUTES
                : fields.group().getBytes(StandardCharsets.UTF_8);
    }

    /** Writes a block at {@code at}; there is room for {@link #bytes}. */
    static void put(ByteBuffer buffer, int at, RowFields fields, byte[] name, int bytes) {
        byte[] payload = fields.payload();
        byte[] group = group(fields);
        int flags =
                (payload == null ? 0 : HAS_PAYLOAD)
                        | (fields.payloadRemoved() ? REMOVES_PAYLOAD : 0)
                        | (fields.leftOut() ? LEFT_OUT : 0);
        buffer.putInt(at, bytes);
        buffer.putShort(at + FLAGS, (short) flags);
        buffer.putShort(at + UNSET, (short) fields.unset().length);
        buffer.putLong(at + CHECK, fields.check());
        buffer.putInt(at + NAME, name.length);
        buffer.putInt(at + ATTRIBUTES, fields.attributes().length);
        buffer.putInt(at + PAYLOAD, payload == null ? 0 : payload.length);
        buffer.putInt(at + GROUP, group.length);
        int to = at + HEADER;
        buffer.put(to, name);
        to += name.length;
        buffer.put(to, fields.attributes());
        to += fields.attributes().length;
        if (payload != null) {
            buffer.put(to, payload);
            to += payload.length;
        }
        for (short column : fields.unset()) {
            buffer.putShort(to, column);
            to += Short.BYTES;
        }
        buffer.put(to, group);
        to += group.length;
        for (; to < at + bytes; to++) {
            buffer.put(to, (byte) 0);
        }
    }

    /** Bytes of the block at {@code at}. */
    static int bytesAt(ByteBuffer buffer, int at) {
        return buffer.getInt(at);
    }

    /** The name in the block at {@code at}; empty if it has none. */
    static String nameAt(ByteBuffer buffer, int at) {
        return text(buffer, at + HEADER, buffer.getInt(at + NAME));
    }

    /** The group in the block at {@code at}; empty if it has none. */
    static String groupAt(ByteBuffer buffer, int at) {
        int before =
                buffer.getInt(at + NAME)
                        + buffer.getInt(at + ATTRIBUTES)
                        + buffer.getInt(at + PAYLOAD)
                        + buffer.getShort(at + UNSET) * Short.BYTES;
        return text(buffer, at + HEADER + before, buffer.getInt(at + GROUP));
    }

    private static String text(ByteBuffer buffer, int from, int length) {
        return new String(bytes(buffer, from, length), StandardCharsets.UTF_8);
    }

    /** Reads the block of an answer at {@code at}. */
    static RowFields read(ByteBuffer buffer, int at) {
        int flags = buffer.getShort(at + FLAGS);
        int name = buffer.getInt(at + NAME);
        int from = at + HEADER;
        String text = text(buffer, from, name);
        from += name;
        byte[] attributes = bytes(buffer, from, buffer.getInt(at + ATTRIBUTES));
        from += attributes.length;
        byte[] payload =
                (flags & HAS_PAYLOAD) == 0
                        ? null
                        : bytes(buffer, from, buffer.getInt(at + PAYLOAD));
        return new RowFields(
                text,
                buffer.getLong(at + CHECK),
                attributes,
                payload,
                RowFields.NO_COLUMNS,
                (flags & REMOVES_PAYLOAD) != 0,
                (flags & LEFT_OUT) != 0);
    }

    private static byte[] bytes(ByteBuffer buffer, int from, int length) {
        byte[] bytes = new byte[length];
        buffer.get(from, bytes);
        return bytes;
    }
}
