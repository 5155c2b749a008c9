package io.vstream.nativecore;

import java.nio.ByteBuffer;

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

    private AskedLayout() {}

    /** The bytes of a block. */
    static int bytes(Asked asked) {
        return Math.addExact(
                        HEADER + asked.columns().length * Short.BYTES + 7, asked.filter().length)
                & ~7;
    }

    /** Writes a block at {@code at}; there is room for {@code bytes}. */
    static void put(ByteBuffer buffer, int at, Asked asked, int bytes) {
        boolean bounded = !Float.isNaN(asked.radius());
        int flags =
                (asked.filter().length > 0 ? HAS_FILTER : 0)
                        | (bounded ? HAS_RADIUS : 0)
                        | (asked.payload() ? WANTS_PAYLOAD : 0)
                        | (asked.names() ? WANTS_NAMES : 0);
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
        for (; to < at + bytes; to++) {
            buffer.put(to, (byte) 0);
        }
    }
}
