package io.vstream.flink.row;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads what {@link AttributesEncoder} and the engine write. */
public final class AttributeValues {

    private AttributeValues() {}

    /**
     * The values by the names of their attributes, in the order of the schema: a {@link String}, a
     * list of them, a {@link Long}, a {@link Double}, a {@link Boolean} or an {@link Instant}.
     * Values of columns that the schema lacks are left out.
     *
     * @throws IllegalArgumentException if the bytes are no attributes
     */
    public static Map<String, Object> read(Schema schema, byte[] attributes) {
        Map<String, Object> values = new LinkedHashMap<>();
        ByteBuffer in = ByteBuffer.wrap(attributes).order(ByteOrder.LITTLE_ENDIAN);
        try {
            while (in.hasRemaining()) {
                Schema.Attribute attribute = schema.attribute(in.getShort() & 0xffff);
                Object value = value(in);
                if (attribute != null) {
                    values.put(attribute.name(), value);
                }
            }
        } catch (BufferUnderflowException e) {
            throw new IllegalArgumentException("The attributes of a row are too short.", e);
        }
        return values;
    }

    /** A schema whose attributes are those of {@code values}, in their order. */
    public static Schema schemaOf(Map<String, Object> values) {
        List<Schema.Attribute> attributes = new ArrayList<>(values.size());
        values.forEach((name, value) -> attributes.add(new Schema.Attribute(name, kindOf(value))));
        return new Schema(false, attributes, 0, 0);
    }

    private static AttributeKind kindOf(Object value) {
        if (value instanceof String) {
            // A keyword would be as well, but may not be as long.
            return AttributeKind.TEXT;
        }
        if (value instanceof List<?>) {
            return AttributeKind.KEYWORDS;
        }
        if (value instanceof Long) {
            return AttributeKind.I64;
        }
        if (value instanceof Double) {
            return AttributeKind.F64;
        }
        if (value instanceof Boolean) {
            return AttributeKind.BOOL;
        }
        if (value instanceof Instant) {
            return AttributeKind.TIMESTAMP;
        }
        throw new IllegalArgumentException(value + " is no value of an attribute.");
    }

    /** Steps over one column and its value. */
    static void skip(ByteBuffer in) {
        in.getShort();
        value(in);
    }

    private static Object value(ByteBuffer in) {
        int tag = in.get();
        AttributeKind kind = AttributeKind.ofTag(tag);
        if (kind == null) {
            throw new IllegalArgumentException("There is no attribute of kind " + tag + ".");
        }
        return switch (kind) {
            case KEYWORD, TEXT -> text(in, in.getInt());
            case KEYWORDS -> {
                int count = in.getShort() & 0xffff;
                List<String> texts = new ArrayList<>(Math.min(count, in.remaining()));
                for (int i = 0; i < count; i++) {
                    texts.add(text(in, in.getShort() & 0xffff));
                }
                yield texts;
            }
            case I64 -> in.getLong();
            case F64 -> in.getDouble();
            case BOOL -> in.get() != 0;
            case TIMESTAMP -> Instant.ofEpochMilli(in.getLong());
        };
    }

    private static String text(ByteBuffer in, int length) {
        if (length < 0 || length > in.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] utf8 = new byte[length];
        in.get(utf8);
        return new String(utf8, StandardCharsets.UTF_8);
    }
}
