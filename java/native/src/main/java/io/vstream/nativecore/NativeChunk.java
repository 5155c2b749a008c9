package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;

/**
 * A part of a document, as {@code crates/embed} cuts it.
 *
 * @param firstByte its place in the document's UTF-8
 * @param endByte behind its last byte
 * @param start its place in the document, in characters (code points)
 * @param end behind its last character
 * @param hash of its text, 32 hexadecimal digits
 */
public record NativeChunk(int firstByte, int endByte, int start, int end, String hash) {

    private static final int BYTES = 32;
    private static final int HASH_BYTES = 16;

    /**
     * Cuts a document.
     *
     * @param document in UTF-8
     * @param size most characters of a chunk
     * @param overlap most characters that a chunk repeats of the one before
     * @throws EngineException INVALID if the document is too long, or a number is out of range
     */
    public static NativeChunk[] split(byte[] document, int size, int overlap) {
        NativeLibrary.load();
        byte[] found = Bridge.chunksSplit(document, size, overlap);
        ByteBuffer places = ByteBuffer.wrap(found).order(ByteOrder.LITTLE_ENDIAN);
        NativeChunk[] chunks = new NativeChunk[found.length / BYTES];
        for (int i = 0; i < chunks.length; i++) {
            int firstByte = places.getInt();
            int endByte = places.getInt();
            int start = places.getInt();
            int end = places.getInt();
            byte[] hash = new byte[HASH_BYTES];
            places.get(hash);
            chunks[i] =
                    new NativeChunk(firstByte, endByte, start, end, HexFormat.of().formatHex(hash));
        }
        return chunks;
    }
}
