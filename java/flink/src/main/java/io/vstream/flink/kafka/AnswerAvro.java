package io.vstream.flink.kafka;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;

/** Writes answers as Avro records of {@link #schema}. Not for several threads. */
final class AnswerAvro {

    private static final int KNOWN = 1;
    private static final int NULL = 0;

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1_024);
    private final byte[] header;
    private final RowAvro rows;
    private BinaryEncoder encoder;

    /**
     * @param registry HTTP address where the schema is registered for the topic's values, or null
     * @param rows schema of the collection
     */
    AnswerAvro(String registry, String topic, io.vstream.flink.row.Schema rows) {
        this.rows = new RowAvro(rows);
        header =
                registry == null
                        ? new byte[0]
                        : ByteBuffer.allocate(SchemaRegistry.HEADER_BYTES)
                                .put((byte) 0)
                                .putInt(
                                        new SchemaRegistry(registry)
                                                .register(topic + "-value", schema(rows)))
                                .array();
    }

    /**
     * Schema of an answer; number ids are the bits of the unsigned number.
     *
     * @param rows schema of the collection
     * @throws IllegalArgumentException if an attribute has a name that Avro does not take
     */
    static Schema schema(io.vstream.flink.row.Schema rows) {
        return SchemaBuilder.record("Answer")
                .namespace("io.vstream")
                .fields()
                .requiredLong("query_id")
                .name("results")
                .type()
                .array()
                .items(RowAvro.schema(rows))
                .noDefault()
                .requiredBoolean("partial")
                .optionalLong("watermark")
                .name("offsets")
                .type()
                .map()
                .values()
                .longType()
                .noDefault()
                .endRecord();
    }

    /** The value of an answer. */
    byte[] value(Answer answer) {
        bytes.reset();
        bytes.writeBytes(header);
        encoder = EncoderFactory.get().binaryEncoder(bytes, encoder);
        try {
            write(answer);
            encoder.flush();
        } catch (IOException e) {
            throw new UncheckedIOException("Writing to memory cannot fail.", e);
        }
        return bytes.toByteArray();
    }

    private void write(Answer answer) throws IOException {
        encoder.writeLong(answer.ticket().queryId());
        encoder.writeArrayStart();
        encoder.setItemCount(answer.ids().length);
        for (int i = 0; i < answer.ids().length; i++) {
            AnswerRow row = i < answer.rows().length ? answer.rows()[i] : null;
            encoder.startItem();
            encoder.writeInt(i + 1);
            rows.id(answer.ids()[i], row, encoder);
            encoder.writeFloat(answer.distances()[i]);
            rows.fields(row, encoder);
        }
        encoder.writeArrayEnd();
        encoder.writeBoolean(answer.partial());
        Frontier frontier = answer.frontier();
        if (frontier.watermark() == Frontier.NO_TIME) {
            encoder.writeIndex(NULL);
            encoder.writeNull();
        } else {
            encoder.writeIndex(KNOWN);
            encoder.writeLong(frontier.watermark());
        }
        offsets(frontier.offsets());
    }

    private void offsets(long[] offsets) throws IOException {
        int known = 0;
        for (long offset : offsets) {
            known += offset == Frontier.NO_OFFSET ? 0 : 1;
        }
        encoder.writeMapStart();
        encoder.setItemCount(known);
        for (int i = 0; i < offsets.length; i++) {
            if (offsets[i] != Frontier.NO_OFFSET) {
                encoder.startItem();
                encoder.writeString(Integer.toString(i));
                encoder.writeLong(offsets[i]);
            }
        }
        encoder.writeMapEnd();
    }
}
