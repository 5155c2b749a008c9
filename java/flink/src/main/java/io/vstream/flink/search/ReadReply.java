package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * What a partition says to a {@link ReadRequest}.
 *
 * @param status whether there is an answer
 * @param message a sentence, where there is none
 * @param run life of the job, 0 before the partition has heard of a template
 * @param position of the newest step of a hand-over that the partition has heard of, see {@link
 *     io.vstream.flink.handover.CommandAck#position}; 0 for none
 * @param rows the answer
 * @param frontier how much of the vector stream is behind it
 * @param incomplete true if rows of a remote level are missing
 */
public record ReadReply(
        Status status,
        String message,
        long run,
        long position,
        Neighbors rows,
        Frontier frontier,
        boolean incomplete) {

    /** Bytes of a reply at most. */
    static final int BYTES_MAX = 64 << 20;

    private static final int MESSAGE_BYTES_MAX = 1 << 12;

    /** Whether there is an answer, and why not. */
    public enum Status {
        /** There is one. */
        ANSWERED,
        /** The question may not be asked so. */
        REFUSED,
        /** The partition has no time, or has not got that far; a later question may be answered. */
        BUSY,
        /** The partition failed. */
        FAILED
    }

    /** No answer. */
    static ReadReply without(Status status, String message) {
        return new ReadReply(status, message, 0, 0, Neighbors.NONE, Frontier.NONE, false);
    }

    /** As bytes. */
    byte[] toBytes() {
        DataOutputSerializer out = new DataOutputSerializer(128 + rows.size() * 20);
        try {
            out.writeByte(status.ordinal());
            byte[] text = message.getBytes(StandardCharsets.UTF_8);
            int length = Math.min(text.length, MESSAGE_BYTES_MAX);
            out.writeShort(length);
            out.write(text, 0, length);
            out.writeLong(run);
            out.writeLong(position);
            rows.write(out);
            frontier.write(out);
            out.writeBoolean(incomplete);
        } catch (IOException e) {
            throw new IllegalStateException("Memory has taken no bytes.", e);
        }
        return out.getCopyOfBuffer();
    }

    /** Reads what {@link #toBytes} made. */
    public static ReadReply of(byte[] bytes) throws IOException {
        DataInputDeserializer in = new DataInputDeserializer(bytes);
        int status = in.readUnsignedByte();
        if (status >= Status.values().length) {
            throw new IOException("A partition says " + status + ", which means nothing.");
        }
        byte[] text = new byte[in.readUnsignedShort()];
        in.readFully(text);
        return new ReadReply(
                Status.values()[status],
                new String(text, StandardCharsets.UTF_8),
                in.readLong(),
                in.readLong(),
                Neighbors.read(in),
                Frontier.read(in),
                in.readBoolean());
    }
}
