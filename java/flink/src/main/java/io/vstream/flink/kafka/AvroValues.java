package io.vstream.flink.kafka;

import io.vstream.flink.row.AttributeKind;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.io.ResolvingDecoder;

/**
 * Reads values of attributes. A keyword is a string or an enum, keywords are an array of strings,
 * i64 is a long or an int, f64 any number, bool a boolean, and a timestamp a long (milliseconds, or
 * what its logical type says) or RFC 3339 as a string. Not for several threads.
 */
final class AvroValues {

    private static final Set<Schema.Type> WHOLE = Set.of(Schema.Type.LONG, Schema.Type.INT);
    private static final Set<Schema.Type> NUMBER =
            Set.of(Schema.Type.FLOAT, Schema.Type.DOUBLE, Schema.Type.LONG, Schema.Type.INT);
    private static final Set<Schema.Type> TEXT = Set.of(Schema.Type.STRING, Schema.Type.ENUM);
    private static final Set<Schema.Type> STRING = Set.of(Schema.Type.STRING);
    private static final Set<Schema.Type> TRUTH = Set.of(Schema.Type.BOOLEAN);

    /** A list of texts. */
    static final Set<Schema.Type> TEXTS = Set.of(Schema.Type.ARRAY);

    /** More texts than a list of an attribute may have; also those of {@code with}. */
    private static final int LIST_MAX = 1 << 11;

    private static final long MICROS = 1_000;

    private final ResolvingDecoder decoder;

    AvroValues(ResolvingDecoder decoder) {
        this.decoder = decoder;
    }

    /** True if a field of that name is an attribute, and not something else of a record. */
    static boolean isAttribute(io.vstream.flink.row.Schema rows, String field) {
        return rows.column(field) >= 0 && !own(rows).containsKey(field);
    }

    /** The fields that mean something, with the types that each may have. */
    static Map<String, Set<Schema.Type>> types(boolean queries, io.vstream.flink.row.Schema rows) {
        Map<String, Set<Schema.Type>> types = new HashMap<>();
        if (queries) {
            types.put("query_id", WHOLE);
            types.put("vector", Set.of(Schema.Type.ARRAY));
            types.put("k", WHOLE);
            types.put("effort", WHOLE);
            types.put("filter", STRING);
            types.put("with", TEXTS);
            types.put("radius", Set.of(Schema.Type.FLOAT, Schema.Type.DOUBLE));
            if (rows.grouped()) {
                types.put("group", STRING);
            }
            return types;
        }
        for (io.vstream.flink.row.Schema.Attribute attribute : rows.attributes()) {
            types.put(attribute.name(), types(attribute.kind()));
        }
        types.putAll(own(rows));
        return types;
    }

    /** What a record has beside attributes. */
    private static Map<String, Set<Schema.Type>> own(io.vstream.flink.row.Schema rows) {
        Map<String, Set<Schema.Type>> own = new HashMap<>();
        own.put("id", rows.textIds() ? STRING : WHOLE);
        own.put("vector", Set.of(Schema.Type.ARRAY));
        own.put("deleted", TRUTH);
        if (!rows.isPlain()) {
            own.put("update", TRUTH);
            own.put("if_newer", WHOLE);
            own.put("payload", Set.of(Schema.Type.BYTES, Schema.Type.STRING));
        }
        if (rows.grouped()) {
            own.put("group", STRING);
            own.put("drop_group", TRUTH);
        }
        return own;
    }

    private static Set<Schema.Type> types(AttributeKind kind) {
        return switch (kind) {
            case KEYWORD, TEXT -> TEXT;
            case KEYWORDS -> TEXTS;
            case I64 -> WHOLE;
            case F64 -> NUMBER;
            case BOOL -> TRUTH;
            case TIMESTAMP -> Set.of(Schema.Type.LONG, Schema.Type.STRING);
        };
    }

    /** Reads a value of one of these types. */
    Object read(Schema schema) throws IOException {
        return switch (schema.getType()) {
            case STRING -> decoder.readString();
            case ENUM -> schema.getEnumSymbols().get(decoder.readEnum());
            case INT -> decoder.readInt();
            case LONG -> {
                long value = decoder.readLong();
                boolean micros = schema.getLogicalType() instanceof LogicalTypes.TimestampMicros;
                yield micros ? Math.floorDiv(value, MICROS) : value;
            }
            case FLOAT -> decoder.readFloat();
            case DOUBLE -> decoder.readDouble();
            case BOOLEAN -> decoder.readBoolean();
            case ARRAY -> texts();
            default -> throw new IOException("A value of type " + schema.getType() + ".");
        };
    }

    /** Reads bytes, or a string as UTF-8. */
    byte[] bytes(Schema schema) throws IOException {
        if (schema.getType() == Schema.Type.STRING) {
            return decoder.readString().getBytes(StandardCharsets.UTF_8);
        }
        ByteBuffer read = decoder.readBytes(null);
        byte[] bytes = new byte[read.remaining()];
        read.get(bytes);
        return bytes;
    }

    private List<String> texts() throws IOException {
        List<String> texts = new ArrayList<>();
        for (long block = decoder.readArrayStart(); block > 0; block = decoder.arrayNext()) {
            if (block > LIST_MAX - texts.size()) {
                throw new IOException("A list of more than " + LIST_MAX + " texts.");
            }
            for (long i = 0; i < block; i++) {
                texts.add(decoder.readString());
            }
        }
        return texts;
    }
}
