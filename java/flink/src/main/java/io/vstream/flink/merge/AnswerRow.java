package io.vstream.flink.merge;

import io.vstream.flink.row.AttributeValues;
import io.vstream.flink.row.AttributesEncoder;
import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * What a row of an answer carries of what the query asked for. Nobody changes the array.
 *
 * @param id the id, where ids are texts; empty otherwise
 * @param attributes values by name, in the order of the schema: a {@link String}, a list of them, a
 *     {@link Long}, a {@link Double}, a {@link Boolean} or an {@link java.time.Instant}. Those
 *     without a value are not there
 * @param payload the payload, or null if the row has none or none was asked for
 * @param leftOut true if attributes and payload were asked for and the answer had no room for them
 */
public record AnswerRow(
        String id, Map<String, Object> attributes, byte[] payload, boolean leftOut) {

    /** Nothing was asked for. */
    static final AnswerRow[] NONE = {};

    private static final AnswerRow EMPTY = new AnswerRow("", Map.of(), null, false);
    private static final int HAS_PAYLOAD = 1;
    private static final int LEFT_OUT = 2;

    /** Attributes of a collection. */
    private static final int ATTRIBUTES_MAX = 256;

    static AnswerRow of(Schema schema, RowFields fields) {
        if (fields.isNone()) {
            return EMPTY;
        }
        return new AnswerRow(
                fields.name(),
                Collections.unmodifiableMap(AttributeValues.read(schema, fields.attributes())),
                fields.payload(),
                fields.leftOut());
    }

    /** Writes the row: names and kinds of the attributes, then all values as one row has them. */
    void write(DataOutputView out) throws IOException {
        out.writeByte((payload == null ? 0 : HAS_PAYLOAD) | (leftOut ? LEFT_OUT : 0));
        out.writeUTF(id);
        Schema schema = AttributeValues.schemaOf(attributes);
        AttributesEncoder encoder = new AttributesEncoder(schema);
        out.writeShort(schema.size());
        for (Schema.Attribute attribute : schema.attributes()) {
            out.writeUTF(attribute.name());
            out.writeByte(attribute.kind().ordinal());
            encoder.set(schema.column(attribute.name()), attributes.get(attribute.name()));
        }
        RowFieldsBlock.write(encoder.build(), out);
        if (payload != null) {
            RowFieldsBlock.write(payload, out);
        }
    }

    /** Reads what {@link #write} wrote. */
    static AnswerRow read(DataInputView in) throws IOException {
        int flags = in.readByte();
        String id = in.readUTF();
        int size = in.readUnsignedShort();
        if (size > ATTRIBUTES_MAX) {
            throw new IOException("A row of an answer claims " + size + " attributes.");
        }
        List<Schema.Attribute> attributes = new ArrayList<>(size);
        for (int i = 0; i < size; i++) {
            attributes.add(Schema.Attribute.ofTag(in.readUTF(), in.readByte()));
        }
        Schema schema = new Schema(false, attributes, 0, 0);
        byte[] values = RowFieldsBlock.bytes(in);
        byte[] payload = (flags & HAS_PAYLOAD) == 0 ? null : RowFieldsBlock.bytes(in);
        return new AnswerRow(
                id,
                Collections.unmodifiableMap(AttributeValues.read(schema, values)),
                payload,
                (flags & LEFT_OUT) != 0);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof AnswerRow that
                && id.equals(that.id)
                && attributes.equals(that.attributes)
                && Arrays.equals(payload, that.payload)
                && leftOut == that.leftOut;
    }

    @Override
    public int hashCode() {
        return 31 * id.hashCode() + attributes.hashCode();
    }
}
