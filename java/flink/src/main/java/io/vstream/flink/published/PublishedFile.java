package io.vstream.flink.published;

import java.io.DataInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.zip.CRC32C;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;

/**
 * A small file that one process writes again and again while others read it, on any file system of
 * Flink. Not all of these replace a file at once, so a reader may find half of one: the file says
 * how long it is and has a checksum.
 *
 * <p>Layout, big-endian: 8 bytes {@code VSPUBLIC}, i32 bytes of the content, the content, i64
 * CRC-32C of all before.
 */
public final class PublishedFile {

    private static final byte[] MAGIC = {'V', 'S', 'P', 'U', 'B', 'L', 'I', 'C'};
    private static final int HEAD = MAGIC.length + Integer.BYTES;
    private static final int CONTENT_MAX = 64 << 20;

    private PublishedFile() {}

    /** Writes the file, in place of an older one. */
    public static void write(Path path, byte[] content) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(HEAD + content.length + Long.BYTES);
        bytes.put(MAGIC).putInt(content.length).put(content);
        bytes.putLong(checksum(bytes.array(), HEAD + content.length));
        FileSystem files = path.getFileSystem();
        files.mkdirs(path.getParent());
        try (FSDataOutputStream out = files.create(path, FileSystem.WriteMode.OVERWRITE)) {
            out.write(bytes.array());
        }
    }

    /**
     * Reads the file.
     *
     * @return null if there is none, or not a whole one: it is being written
     * @throws IOException if the file system fails, or the file is none of ours
     */
    public static byte[] read(Path path) throws IOException {
        try (DataInputStream in = new DataInputStream(path.getFileSystem().open(path))) {
            byte[] head = in.readNBytes(HEAD);
            if (head.length < HEAD) {
                return null;
            }
            if (!Arrays.equals(head, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
                throw new IOException(path + " does not begin as a published file of VStream.");
            }
            int length = ByteBuffer.wrap(head).getInt(MAGIC.length);
            if (length < 0 || length > CONTENT_MAX) {
                throw new IOException(path + " claims " + length + " bytes.");
            }
            byte[] content = in.readNBytes(length);
            byte[] end = in.readNBytes(Long.BYTES);
            if (content.length < length || end.length < Long.BYTES) {
                return null;
            }
            byte[] all = Arrays.copyOf(head, HEAD + length);
            System.arraycopy(content, 0, all, HEAD, length);
            return ByteBuffer.wrap(end).getLong() == checksum(all, all.length) ? content : null;
        } catch (FileNotFoundException e) {
            return null;
        }
    }

    private static long checksum(byte[] bytes, int length) {
        CRC32C sum = new CRC32C();
        sum.update(bytes, 0, length);
        return sum.getValue();
    }
}
