package io.vstream.nativecore;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.LongConsumer;
import java.util.function.ToLongFunction;

/**
 * Immutable native objects by the bytes that they were read from: all subtasks of a process hold
 * one object, which goes with its last owner. For any number of threads.
 */
final class SharedObjects {

    private final String owner;
    private final ToLongFunction<byte[]> read;
    private final LongConsumer destroy;
    private final Map<String, Shared> open = new HashMap<>();

    /**
     * @param owner what an object is, for messages
     * @param read makes the native object of bytes
     * @param destroy frees it
     */
    SharedObjects(String owner, ToLongFunction<byte[]> read, LongConsumer destroy) {
        this.owner = owner;
        this.read = read;
        this.destroy = destroy;
    }

    /** The object of these bytes, with one owner more: the handle. */
    synchronized NativeHandle of(byte[] bytes) {
        String digest = digest(bytes);
        Shared shared = open.get(digest);
        if (shared == null) {
            shared = new Shared(read.applyAsLong(bytes));
            open.put(digest, shared);
        }
        shared.owners++;
        return new NativeHandle(owner, shared.number, number -> release(digest));
    }

    /** How many objects are open. */
    synchronized int count() {
        return open.size();
    }

    private synchronized void release(String digest) {
        Shared shared = open.get(digest);
        shared.owners--;
        if (shared.owners == 0) {
            open.remove(digest);
            destroy.accept(shared.number);
        }
    }

    private static String digest(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("Every Java platform has SHA-256.", e);
        }
    }

    private static final class Shared {
        private final long number;
        private int owners;

        private Shared(long number) {
            this.number = number;
        }
    }
}
