package io.vstream.flink.source;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;

/**
 * A file of vectors in the form of the big-ann benchmarks, mapped into memory: u32 rows, u32
 * dimension, then the rows; {@code .fbin} holds f32, {@code .u8bin} u8 and {@code .i8bin} i8, all
 * little-endian. One thread.
 */
public final class DatasetFile implements Closeable {

    private static final int HEADER_BYTES = 8;

    /** A Java buffer ends at 2 GiB, so a larger file is mapped in several pieces. */
    private static final long PIECE_BYTES_MAX = 1L << 30;

    private final int rows;
    private final int dimension;
    private final Form form;
    private final int rowsPerPiece;
    private final MappedByteBuffer[] pieces;
    private final FloatBuffer[] floats;

    private DatasetFile(Header header, Form form, FileChannel channel) throws IOException {
        this.rows = header.rows;
        this.dimension = header.dimension;
        this.form = form;
        int rowBytes = rowBytes();
        this.rowsPerPiece = (int) (PIECE_BYTES_MAX / rowBytes);
        int count = (rows + rowsPerPiece - 1) / rowsPerPiece;
        this.pieces = new MappedByteBuffer[count];
        this.floats = new FloatBuffer[count];
        for (int i = 0; i < count; i++) {
            long first = (long) i * rowsPerPiece;
            long size = Math.min(rowsPerPiece, rows - first) * rowBytes;
            pieces[i] =
                    channel.map(
                            FileChannel.MapMode.READ_ONLY, HEADER_BYTES + first * rowBytes, size);
            pieces[i].order(ByteOrder.LITTLE_ENDIAN);
            floats[i] = pieces[i].asFloatBuffer();
        }
    }

    private record Header(int rows, int dimension) {}

    /** Element of a file; the file's name ends in it. */
    private enum Form {
        FBIN,
        U8BIN,
        I8BIN;

        int numberBytes() {
            return this == FBIN ? Float.BYTES : Byte.BYTES;
        }

        static Form of(Path path) throws IOException {
            for (Form form : values()) {
                if (path.toString().endsWith("." + form.name().toLowerCase(Locale.ROOT))) {
                    return form;
                }
            }
            throw new IOException(
                    "The generator reads .fbin, .u8bin and .i8bin files; " + path + " is none.");
        }
    }

    /**
     * Opens and checks a file.
     *
     * @throws IOException with a sentence that says what to change
     */
    public static DatasetFile open(Path path) throws IOException {
        Form form = Form.of(path);
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            Header header = header(channel, path);
            long wanted = HEADER_BYTES + (long) header.rows * header.dimension * form.numberBytes();
            if (header.rows < 1 || header.dimension < 1 || channel.size() != wanted) {
                throw new IOException(
                        path
                                + " has "
                                + channel.size()
                                + " bytes but its header, "
                                + header.rows
                                + " rows of "
                                + header.dimension
                                + ", needs "
                                + wanted
                                + "; download or convert it again.");
            }
            return new DatasetFile(header, form, channel);
        }
    }

    /** Rows in the file. */
    public int rows() {
        return rows;
    }

    /** Elements of each row. */
    public int dimension() {
        return dimension;
    }

    /** Copies a row into {@code into}, which has the file's dimension. */
    public void read(int row, float[] into) {
        int piece = row / rowsPerPiece;
        int first = (row % rowsPerPiece) * dimension;
        if (form == Form.FBIN) {
            floats[piece].get(first, into, 0, dimension);
            return;
        }
        for (int i = 0; i < dimension; i++) {
            byte number = pieces[piece].get(first + i);
            into[i] = form == Form.U8BIN ? Byte.toUnsignedInt(number) : number;
        }
    }

    /** The mappings end when the garbage collector finds them; nothing else is held. */
    @Override
    public void close() {}

    private int rowBytes() {
        return dimension * form.numberBytes();
    }

    private static Header header(FileChannel channel, Path path) throws IOException {
        ByteBuffer header = ByteBuffer.allocate(HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        while (header.hasRemaining() && channel.read(header) >= 0) {
            // Reads on until the header is whole or the file ends.
        }
        if (header.hasRemaining()) {
            throw new IOException(path + " is shorter than a header; download it again.");
        }
        return new Header(header.getInt(0), header.getInt(Integer.BYTES));
    }
}
