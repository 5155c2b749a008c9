package io.vstream.flink.kafka;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Records as other programs write and read them: by Avro's generic classes. */
public final class AvroRecords {

    private AvroRecords() {}

    /** The bytes of a record. */
    public static byte[] bytes(GenericRecord record) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, encoder);
        encoder.flush();
        return bytes.toByteArray();
    }

    /** Bytes behind the header of a registry. */
    public static byte[] framed(int number, byte[] bytes) {
        return ByteBuffer.allocate(1 + Integer.BYTES + bytes.length)
                .put((byte) 0)
                .putInt(number)
                .put(bytes)
                .array();
    }

    /** Reads a record from {@code from} on. */
    public static GenericRecord read(Schema schema, byte[] bytes, int from) throws IOException {
        return new GenericDatumReader<GenericRecord>(schema)
                .read(
                        null,
                        DecoderFactory.get().binaryDecoder(bytes, from, bytes.length - from, null));
    }
}
