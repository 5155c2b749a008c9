package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Writes {@code asked} blocks, see {@link BufferLayout}. */
final class AskedLayout {

    private static final int FLAGS = 4;
    private static final int COLUMNS = 6;
    private static final int RADIUS = 8;
    private static final int FILTER = 12;
    private static final int HEADER = 16;

    private static final int HAS_FILTER = 1;
    private static final int HAS_RADIUS = 2;
    private static final int WANTS_PAYLOAD = 4;
    private static final int WANTS_NAMES = 8;
    private static final int HAS_GROUP = 16;
    private static final int HAS_ORDER = 32;

    private AskedLayout() {}

    /** The bytes of a block. */
    static int bytes(Asked asked) {
        int texts = bytes(asked.group()) + bytes(asked.order());
        return Math.addExact(
                        HEADER + asked.columns().length * Short.BYTES + texts + 7,
                        asked.filter().length)
                & ~7;
    }

    private static int bytes(String text) {
        return text.isEmpty() ? 0 : Integer.BYTES + text.getBytes(StandardCharsets.UTF_8).length;
    }

    /** Writes a text, its length first; nothing if there is none. */
    private static int put(ByteBuffer buffer, int at, String text) {
        if (text.isEmpty()) {
            return at;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        buffer.putInt(at, bytes.length);
        buffer.put(at + Integer.BYTES, bytes);
        return at + Integer.BYTES + bytes.length;
    }

    /** Writes a block at {@code at}; there is room for {@code bytes}. */
    static void put(ByteBuffer buffer, int at, Asked asked, int bytes) {
        boolean bounded = !Float.isNaN(asked.radius());
        int flags =
                (asked.filter().length > 0 ? HAS_FILTER : 0)
                        | (bounded ? HAS_RADIUS : 0)
                        | (asked.payload() ? WANTS_PAYLOAD : 0)
                        | (asked.names() ? WANTS_NAMES : 0)
                        | (asked.group().isEmpty() ? 0 : HAS_GROUP)
                        | (asked.order().isEmpty() ? 0 : HAS_ORDER);
        buffer.putInt(at, bytes);
        buffer.putShort(at + FLAGS, (short) flags);
        buffer.putShort(at + COLUMNS, (short) asked.columns().length);
        buffer.putFloat(at + RADIUS, bounded ? asked.radius() : 0);
        buffer.putInt(at + FILTER, asked.filter().length);
        int to = at + HEADER;
        buffer.put(to, asked.filter());
        to += asked.filter().length;
        for (short column : asked.columns()) {
            buffer.putShort(to, column);
            to += Short.BYTES;
        }
        to = put(buffer, to, asked.group());
        to = put(buffer, to, asked.order());
        for (; to < at + bytes; to++) {
            buffer.put(to, (byte) 0);
        }
    }
}
