package io.vstream.flink.kafka;

import io.vstream.flink.merge.AnswerRow;
import io.vstream.flink.row.AttributeKind;
import io.vstream.flink.row.Schema;
import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.avro.LogicalTypes;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.SchemaParseException;
import org.apache.avro.io.Encoder;

/**
 * What the rows of an answer carry, in Avro: a record {@code attributes} with a field for every
 * attribute of the collection, in the order of the schema and each in a union with null; {@code
 * payload}; and {@code left_out}. A row of which nothing was asked has null for all of it. Not for
 * several threads.
 */
final class RowAvro {

    private static final int NULL = 0;
    private static final int VALUE = 1;
    private static final AnswerRow NOTHING = new AnswerRow("", Map.of(), null, false);

    private final Schema rows;

    /**
     * @param rows schema of the collection
     */
    RowAvro(Schema rows) {
        this.rows = rows;
    }

    /**
     * The schema of one result.
     *
     * @param rows schema of the collection
     * @throws IllegalArgumentException if an attribute has a name that Avro does not take
     */
    static org.apache.avro.Schema schema(Schema rows) {
        SchemaBuilder.FieldAssembler<org.apache.avro.Schema> result =
                SchemaBuilder.record("Result").fields().requiredInt("rank");
        result = rows.textIds() ? result.requiredString("id") : result.requiredLong("id");
        result = result.requiredFloat("distance");
        if (rows.isPlain()) {
            return result.endRecord();
        }
        if (rows.size() > 0) {
            result = result.name("attributes").type().optional().type(attributes(rows));
        }
        return result.optionalBytes("payload").requiredBoolean("left_out").endRecord();
    }

    private static org.apache.avro.Schema attributes(Schema rows) {
        SchemaBuilder.FieldAssembler<org.apache.avro.Schema> fields =
                SchemaBuilder.record("Attributes").fields();
        for (Schema.Attribute attribute : rows.attributes()) {
            try {
                fields = fields.name(attribute.name()).type().optional().type(of(attribute.kind()));
            } catch (SchemaParseException e) {
                throw new IllegalArgumentException(
                        "results.format: '"
                                + attribute.name()
                                + "' is no name of a field in Avro, which has letters, digits and"
                                + " underscores. Write answers as json, or name the attribute so.",
                        e);
            }
        }
        return fields.endRecord();
    }

    private static org.apache.avro.Schema of(AttributeKind kind) {
        SchemaBuilder.TypeBuilder<org.apache.avro.Schema> type = SchemaBuilder.builder();
        return switch (kind) {
            case KEYWORD, TEXT -> type.stringType();
            case KEYWORDS -> type.array().items().stringType();
            case I64 -> type.longType();
            case F64 -> type.doubleType();
            case BOOL -> type.booleanType();
            case TIMESTAMP -> LogicalTypes.timestampMillis().addToSchema(type.longType());
        };
    }

    /**
     * Writes the id of a row: a text where ids are texts, else the bits of the number.
     *
     * @param row what it carries, or null
     */
    void id(long id, AnswerRow row, Encoder out) throws IOException {
        if (!rows.textIds()) {
            out.writeLong(id);
        } else {
            boolean named = row != null && !row.id().isEmpty();
            out.writeString(named ? row.id() : Long.toUnsignedString(id));
        }
    }

    /**
     * Writes what a row carries.
     *
     * @param row what it carries, or null
     */
    void fields(AnswerRow row, Encoder out) throws IOException {
        if (rows.isPlain()) {
            return;
        }
        AnswerRow carried = row == null ? NOTHING : row;
        if (rows.size() > 0) {
            boolean some = !carried.attributes().isEmpty();
            out.writeIndex(some ? VALUE : NULL);
            if (some) {
                for (Schema.Attribute attribute : rows.attributes()) {
                    value(carried.attributes().get(attribute.name()), out);
                }
            } else {
                out.writeNull();
            }
        }
        byte[] payload = carried.payload();
        out.writeIndex(payload == null ? NULL : VALUE);
        if (payload == null) {
            out.writeNull();
        } else {
            out.writeBytes(payload);
        }
        out.writeBoolean(carried.leftOut());
    }

    private static void value(Object value, Encoder out) throws IOException {
        out.writeIndex(value == null ? NULL : VALUE);
        if (value == null) {
            out.writeNull();
        } else if (value instanceof String text) {
            out.writeString(text);
        } else if (value instanceof List<?> texts) {
            out.writeArrayStart();
            out.setItemCount(texts.size());
            for (Object text : texts) {
                out.startItem();
                out.writeString((String) text);
            }
            out.writeArrayEnd();
        } else if (value instanceof Long whole) {
            out.writeLong(whole);
        } else if (value instanceof Double number) {
            out.writeDouble(number);
        } else if (value instanceof Boolean truth) {
            out.writeBoolean(truth);
        } else {
            out.writeLong(((Instant) value).toEpochMilli());
        }
    }
}
