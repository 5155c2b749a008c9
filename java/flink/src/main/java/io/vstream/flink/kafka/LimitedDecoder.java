package io.vstream.flink.kafka;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.Decoder;
import org.apache.avro.util.Utf8;

/**
 * Reads Avro's binary form, and takes no memory for a text or bytes longer than the record. Not for
 * several threads.
 */
final class LimitedDecoder extends Decoder {

    private BinaryDecoder in;
    private int bytesMax;

    /** Reads from {@code decoder}, whose record has that many bytes. */
    void read(BinaryDecoder decoder, int recordBytes) {
        in = decoder;
        bytesMax = recordBytes;
    }

    private byte[] bytes() throws IOException {
        long length = in.readLong();
        if (length < 0 || length > bytesMax) {
            throw new EOFException("A text or bytes longer than the record.");
        }
        byte[] bytes = new byte[(int) length];
        in.readFixed(bytes);
        return bytes;
    }

    @Override
    public Utf8 readString(Utf8 old) throws IOException {
        return new Utf8(bytes());
    }

    @Override
    public String readString() throws IOException {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    @Override
    public ByteBuffer readBytes(ByteBuffer old) throws IOException {
        return ByteBuffer.wrap(bytes());
    }

    @Override
    public void skipString() throws IOException {
        in.skipString();
    }

    @Override
    public void skipBytes() throws IOException {
        in.skipBytes();
    }

    @Override
    public void readNull() throws IOException {
        in.readNull();
    }

    @Override
    public boolean readBoolean() throws IOException {
        return in.readBoolean();
    }

    @Override
    public int readInt() throws IOException {
        return in.readInt();
    }

    @Override
    public long readLong() throws IOException {
        return in.readLong();
    }

    @Override
    public float readFloat() throws IOException {
        return in.readFloat();
    }

    @Override
    public double readDouble() throws IOException {
        return in.readDouble();
    }

    @Override
    public void readFixed(byte[] bytes, int start, int length) throws IOException {
        in.readFixed(bytes, start, length);
    }

    @Override
    public void skipFixed(int length) throws IOException {
        in.skipFixed(length);
    }

    @Override
    public int readEnum() throws IOException {
        return in.readEnum();
    }

    @Override
    public long readArrayStart() throws IOException {
        return in.readArrayStart();
    }

    @Override
    public long arrayNext() throws IOException {
        return in.arrayNext();
    }

    @Override
    public long skipArray() throws IOException {
        return in.skipArray();
    }

    @Override
    public long readMapStart() throws IOException {
        return in.readMapStart();
    }

    @Override
    public long mapNext() throws IOException {
        return in.mapNext();
    }

    @Override
    public long skipMap() throws IOException {
        return in.skipMap();
    }

    @Override
    public int readIndex() throws IOException {
        return in.readIndex();
    }
}
