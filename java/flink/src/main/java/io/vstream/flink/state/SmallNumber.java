package io.vstream.flink.state;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A number of a shard: one byte if it is less than 128, else two, the lower seven bits first with
 * the top bit set.
 */
public final class SmallNumber {

    /** Largest number. */
    public static final int MAX = (1 << 15) - 1;

    private static final int BITS = 7;
    private static final int MORE = 1 << BITS;

    private SmallNumber() {}

    /** Writes a number from 0 to {@link #MAX}. */
    public static void write(int number, DataOutputView out) throws IOException {
        if (number < MORE) {
            out.writeByte(number);
        } else {
            out.writeByte(number & (MORE - 1) | MORE);
            out.writeByte(number >>> BITS);
        }
    }

    /** Reads what {@link #write} wrote. */
    public static int read(DataInputView in) throws IOException {
        int low = in.readUnsignedByte();
        return low < MORE ? low : low & (MORE - 1) | in.readUnsignedByte() << BITS;
    }
}
