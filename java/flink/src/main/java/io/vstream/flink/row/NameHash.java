package io.vstream.flink.row;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Hashes ids that are texts: SipHash-2-4 with 128 bits, as {@code crates/attribute/src/name.rs}
 * does. The low half is the id by which the row is kept, the high half tells apart two texts with
 * one id. Holds the last hash; not for several threads.
 */
public final class NameHash {

    /** Most bytes of an id. */
    public static final int NAME_BYTES_MAX = 512;

    /** Bytes of the key. */
    static final int KEY_BYTES = 16;

    /** Second half of the key, after the seed of the collection. */
    static final byte[] DOMAIN = "row name".getBytes(StandardCharsets.US_ASCII);

    private static final long MARK_128 = 0xee;
    private static final long MARK_SECOND = 0xdd;
    private static final int ROUNDS = 2;
    private static final int LAST_ROUNDS = 4;

    /** Stands for no id, so no text has it. */
    private static final long NO_ID = -1;

    private final long key0;
    private final long key1;
    private long v0;
    private long v1;
    private long v2;
    private long v3;
    private long id;
    private long check;

    /**
     * @param key 16 bytes
     */
    NameHash(byte[] key) {
        ByteBuffer words = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
        key0 = words.getLong();
        key1 = words.getLong();
    }

    /**
     * Hashes an id; {@link #id} and {@link #check} then speak of it.
     *
     * @return false for an id without a byte, with more than {@link #NAME_BYTES_MAX} or that has
     *     half a character, which no bytes stand for
     */
    public boolean hash(String name) {
        if (name.isEmpty() || name.length() > NAME_BYTES_MAX || !Texts.isWhole(name)) {
            return false;
        }
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > NAME_BYTES_MAX) {
            return false;
        }
        hash(bytes);
        return true;
    }

    /** Hashes bytes of any length. */
    void hash(byte[] bytes) {
        v0 = key0 ^ 0x736f6d6570736575L;
        v1 = key1 ^ 0x646f72616e646f6dL ^ MARK_128;
        v2 = key0 ^ 0x6c7967656e657261L;
        v3 = key1 ^ 0x7465646279746573L;
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        while (words.remaining() >= Long.BYTES) {
            take(words.getLong());
        }
        long last = (long) bytes.length << 56;
        for (int shift = 0; words.hasRemaining(); shift += Byte.SIZE) {
            last |= (words.get() & 0xffL) << shift;
        }
        take(last);
        v2 ^= MARK_128;
        rounds(LAST_ROUNDS);
        id = v0 ^ v1 ^ v2 ^ v3;
        v1 ^= MARK_SECOND;
        rounds(LAST_ROUNDS);
        check = v0 ^ v1 ^ v2 ^ v3;
        if (id == NO_ID) {
            id--;
        }
    }

    /** Low half of the last hash. */
    public long id() {
        return id;
    }

    /** High half of the last hash. */
    public long check() {
        return check;
    }

    private void take(long word) {
        v3 ^= word;
        rounds(ROUNDS);
        v0 ^= word;
    }

    private void rounds(int count) {
        for (int i = 0; i < count; i++) {
            v0 += v1;
            v1 = Long.rotateLeft(v1, 13) ^ v0;
            v0 = Long.rotateLeft(v0, 32);
            v2 += v3;
            v3 = Long.rotateLeft(v3, 16) ^ v2;
            v0 += v3;
            v3 = Long.rotateLeft(v3, 21) ^ v0;
            v2 += v1;
            v1 = Long.rotateLeft(v1, 17) ^ v2;
            v2 = Long.rotateLeft(v2, 32);
        }
    }
}
