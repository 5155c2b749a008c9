package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.function.IntPredicate;

/**
 * Ranges of codes that go from one shard to another, ascending, without overlap. Immutable.
 *
 * <p>A range is 24 bytes, little-endian: i64 first code, i64 last code, both unsigned, i16 shard
 * before, i16 shard afterwards, i32 zero.
 */
public final class MovedRanges {

    /** Buckets of the line: the top {@link #BUCKET_BITS} bits of a code. */
    public static final int BUCKETS = 4096;

    /** Bits of a bucket's number. */
    public static final int BUCKET_BITS = 12;

    /** No range. */
    public static final MovedRanges NONE = new MovedRanges(new byte[0]);

    private static final int RANGE_BYTES = 24;
    private static final int LAST = 8;
    private static final int FROM = 16;
    private static final int TO = 18;

    private final ByteBuffer bytes;

    /** Takes the bytes of {@link #bytes}, which nobody may change any more. */
    public MovedRanges(byte[] bytes) {
        if (bytes.length % RANGE_BYTES != 0) {
            throw new IllegalArgumentException(
                    bytes.length + " bytes are no whole number of moved ranges.");
        }
        this.bytes = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The ranges as bytes; not to be changed. */
    public byte[] bytes() {
        return bytes.array();
    }

    /** How many ranges. */
    public int count() {
        return bytes.capacity() / RANGE_BYTES;
    }

    /** Shard that range {@code i} belongs to before. */
    public int from(int i) {
        return bytes.getShort(i * RANGE_BYTES + FROM);
    }

    /** Shard that range {@code i} belongs to afterwards. */
    public int to(int i) {
        return bytes.getShort(i * RANGE_BYTES + TO);
    }

    /** The ranges that {@code chosen} takes, by number. */
    public MovedRanges select(IntPredicate chosen) {
        byte[] some = new byte[bytes.capacity()];
        int size = 0;
        for (int i = 0; i < count(); i++) {
            if (chosen.test(i)) {
                System.arraycopy(bytes(), i * RANGE_BYTES, some, size, RANGE_BYTES);
                size += RANGE_BYTES;
            }
        }
        return new MovedRanges(Arrays.copyOf(some, size));
    }

    /** The range that holds a code, or -1. */
    public int rangeOf(long code) {
        int low = 0;
        int high = count() - 1;
        while (low <= high) {
            int middle = (low + high) >>> 1;
            int at = middle * RANGE_BYTES;
            if (Long.compareUnsigned(code, bytes.getLong(at)) < 0) {
                high = middle - 1;
            } else if (Long.compareUnsigned(code, bytes.getLong(at + LAST)) > 0) {
                low = middle + 1;
            } else {
                return middle;
            }
        }
        return -1;
    }

    /** The bucket of a code. */
    public static int bucket(long code) {
        return (int) (code >>> Long.SIZE - BUCKET_BITS);
    }
}
