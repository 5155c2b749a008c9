package io.vstream.flink.source;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes small data files; element e of row r is 1000 r + e, or its low byte. */
public final class DataFiles {

    private DataFiles() {}

    /** An .fbin file. */
    public static Path floats(Path folder, String name, int rows, int dimension)
            throws IOException {
        ByteBuffer file = header(rows, dimension, Float.BYTES);
        for (int row = 0; row < rows; row++) {
            for (int i = 0; i < dimension; i++) {
                file.putFloat(row * 1000 + i);
            }
        }
        return Files.write(folder.resolve(name + ".fbin"), file.array());
    }

    /** A file of bytes; {@code name} ends in .u8bin or .i8bin. */
    public static Path bytes(Path folder, String name, int rows, int dimension) throws IOException {
        ByteBuffer file = header(rows, dimension, Byte.BYTES);
        for (int row = 0; row < rows; row++) {
            for (int i = 0; i < dimension; i++) {
                file.put((byte) (row * 1000 + i));
            }
        }
        return Files.write(folder.resolve(name), file.array());
    }

    private static ByteBuffer header(int rows, int dimension, int elementBytes) {
        return ByteBuffer.allocate(2 * Integer.BYTES + rows * dimension * elementBytes)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putInt(rows)
                .putInt(dimension);
    }
}
