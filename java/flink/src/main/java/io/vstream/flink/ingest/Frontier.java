package io.vstream.flink.ingest;

import java.io.IOException;
import java.util.Arrays;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * How much of the vector stream is behind an answer: every record up to here was applied before the
 * search, and some later ones may have been. Immutable; the array is shared and never changed.
 *
 * @param watermark event time in milliseconds since 1970 up to which all records were applied, or
 *     {@link #NO_TIME}
 * @param offsets next offset of each partition of the source, by the partition's number; {@link
 *     #NO_OFFSET} where nothing is known. Empty for sources that have no offsets
 */
public record Frontier(long watermark, long[] offsets) {

    /** Sources and place send their offsets on at most this often. */
    public static final long OFFSETS_EVERY_MILLIS = 100;

    /** A watermark that is not known. */
    public static final long NO_TIME = Long.MIN_VALUE;

    /** An offset that is not known. */
    public static final long NO_OFFSET = -1;

    /** Nothing is known. */
    public static final Frontier NONE = new Frontier(NO_TIME, new long[0]);

    /** More partitions than a topic has; a larger number means that the bytes are not ours. */
    private static final int PARTITIONS_MAX = 1 << 20;

    /**
     * A watermark as it is kept for whoever goes on: the end of a stream is no time of the next
     * one.
     */
    public static long kept(long watermark) {
        return watermark == Long.MAX_VALUE ? NO_TIME : watermark;
    }

    /** The frontier behind both answers. */
    public Frontier min(Frontier other) {
        return new Frontier(Math.min(watermark, other.watermark), min(offsets, other.offsets));
    }

    /** Element by element the smaller offset; what one array lacks is not known. */
    public static long[] min(long[] one, long[] other) {
        long[] min = new long[Math.max(one.length, other.length)];
        Arrays.fill(min, NO_OFFSET);
        for (int i = 0; i < Math.min(one.length, other.length); i++) {
            min[i] = Math.min(one[i], other[i]);
        }
        return min;
    }

    /** Element by element the larger offset. */
    public static long[] max(long[] one, long[] other) {
        long[] longer = one.length >= other.length ? one : other;
        long[] shorter = longer == one ? other : one;
        long[] max = longer.clone();
        for (int i = 0; i < shorter.length; i++) {
            max[i] = Math.max(max[i], shorter[i]);
        }
        return max;
    }

    /** The watermark and then the offsets, as state keeps them. */
    public long[] toLongs() {
        long[] longs = new long[offsets.length + 1];
        longs[0] = watermark;
        System.arraycopy(offsets, 0, longs, 1, offsets.length);
        return longs;
    }

    /** Reads what {@link #toLongs} made. */
    public static Frontier ofLongs(long[] longs) {
        return new Frontier(longs[0], Arrays.copyOfRange(longs, 1, longs.length));
    }

    /** Writes both fields. */
    public void write(DataOutputView out) throws IOException {
        out.writeLong(watermark);
        write(offsets, out);
    }

    /** Reads what {@link #write(DataOutputView)} wrote. */
    public static Frontier read(DataInputView in) throws IOException {
        return new Frontier(in.readLong(), readOffsets(in));
    }

    /** Writes offsets, their number first. */
    public static void write(long[] offsets, DataOutputView out) throws IOException {
        out.writeInt(offsets.length);
        for (long offset : offsets) {
            out.writeLong(offset);
        }
    }

    /** Reads what {@link #write(long[], DataOutputView)} wrote. */
    public static long[] readOffsets(DataInputView in) throws IOException {
        int size = in.readInt();
        if (size < 0 || size > PARTITIONS_MAX) {
            throw new IOException("A frontier claims " + size + " partitions.");
        }
        if (size == 0) {
            return NONE.offsets;
        }
        long[] offsets = new long[size];
        for (int i = 0; i < size; i++) {
            offsets[i] = in.readLong();
        }
        return offsets;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Frontier that
                && watermark == that.watermark
                && Arrays.equals(offsets, that.offsets);
    }

    @Override
    public int hashCode() {
        return 31 * Long.hashCode(watermark) + Arrays.hashCode(offsets);
    }
}
