package io.vstream.flink.search;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * How readers and partitions talk: a greeting, then questions and answers in turn, each a length
 * and as many bytes. Big-endian.
 *
 * <p>The greeting is 8 bytes {@code VSREAD01}, u16 bytes of the key, the key. The partition says a
 * byte, 1 if the key is right, and else 0 and closes.
 */
public final class ReadFrames {

    private static final byte[] MAGIC = "VSREAD01".getBytes(StandardCharsets.US_ASCII);
    private static final int KEY_BYTES_MAX = 1 << 10;
    private static final int WELCOME = 1;

    private ReadFrames() {}

    /** Greets a partition; throws if it does not know the key. */
    public static void greet(DataOutputStream out, DataInputStream in, String key)
            throws IOException {
        byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
        out.write(MAGIC);
        out.writeShort(bytes.length);
        out.write(bytes);
        out.flush();
        int said = in.read();
        if (said < 0) {
            throw new EOFException("The partition takes no more readers now.");
        }
        if (said != WELCOME) {
            throw new ReadRefused("The partition does not take this key.");
        }
    }

    /** Reads a greeting; the key. */
    static byte[] greeting(DataInputStream in) throws IOException {
        byte[] magic = in.readNBytes(MAGIC.length);
        if (!Arrays.equals(magic, MAGIC)) {
            throw new IOException("This is no reader of VStream.");
        }
        int length = in.readUnsignedShort();
        if (length > KEY_BYTES_MAX) {
            throw new IOException("A key of " + length + " bytes is too long.");
        }
        return in.readNBytes(length);
    }

    /** Lets a reader in, or not. */
    static void welcome(DataOutputStream out, boolean in) throws IOException {
        out.writeByte(in ? WELCOME : 0);
        out.flush();
    }

    /** Sends a frame. */
    public static void send(DataOutputStream out, byte[] frame) throws IOException {
        out.writeInt(frame.length);
        out.write(frame);
        out.flush();
    }

    /** Receives a frame; null at the end. */
    public static byte[] receive(DataInputStream in, boolean ofReader) throws IOException {
        int first = in.read();
        if (first < 0) {
            return null;
        }
        int length = first << 24 | in.readUnsignedByte() << 16 | in.readUnsignedShort();
        int most = ofReader ? ReadRequest.BYTES_MAX : ReadReply.BYTES_MAX;
        if (length < 0 || length > most) {
            throw new IOException("A frame of " + length + " bytes is too long.");
        }
        byte[] frame = in.readNBytes(length);
        if (frame.length < length) {
            throw new EOFException("A frame ends early.");
        }
        return frame;
    }
}
