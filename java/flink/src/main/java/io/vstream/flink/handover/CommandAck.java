package io.vstream.flink.handover;

import io.vstream.nativecore.MovedRanges;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Tells a partition that a place task or a router has done a command: its later writes or queries
 * follow the command, its earlier ones do not.
 *
 * @param run life of the job in which the command was given
 * @param epoch of the template that the hand-over leads to
 * @param step that was done
 * @param task subtask that sends this
 * @param moves ranges that change hands
 */
public record CommandAck(long run, long epoch, Step step, int task, MovedRanges moves) {

    private static final int MOVES_BYTES_MAX = 1 << 20;

    /** Where the hand-overs are: grows with the epoch, then with the step. */
    public long position() {
        return position(epoch, step);
    }

    /** Position of a step. */
    public static long position(long epoch, Step step) {
        return epoch * Byte.SIZE + step.ordinal();
    }

    /** Epoch of a position. */
    public static long epoch(long position) {
        return position / Byte.SIZE;
    }

    /** How many templates have settled at a position: from then on old owners let rows go. */
    public static long settled(long position) {
        return epoch(position) - (step(position).ordinal() < Step.SETTLE.ordinal() ? 1 : 0);
    }

    /** Step of a position. */
    public static Step step(long position) {
        return Step.of((int) (position % Byte.SIZE));
    }

    /** Writes all fields. */
    public void write(DataOutputView out) throws IOException {
        out.writeLong(run);
        out.writeLong(epoch);
        out.writeByte(step.ordinal());
        out.writeShort(task);
        writeBytes(moves.bytes(), out);
    }

    /** Reads what {@link #write} wrote. */
    public static CommandAck read(DataInputView in) throws IOException {
        return new CommandAck(
                in.readLong(),
                in.readLong(),
                Step.of(in.readUnsignedByte()),
                in.readUnsignedShort(),
                new MovedRanges(readBytes(in, MOVES_BYTES_MAX)));
    }

    /** Writes a length and as many bytes. */
    public static void writeBytes(byte[] bytes, DataOutputView out) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    /** Reads what {@link #writeBytes} wrote, if it is no longer than {@code bytesMax}. */
    public static byte[] readBytes(DataInputView in, int bytesMax) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > bytesMax) {
            throw new IOException("A record claims " + length + " bytes.");
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }
}
