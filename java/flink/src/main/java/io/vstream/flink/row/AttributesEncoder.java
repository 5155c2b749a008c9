package io.vstream.flink.row;

import io.vstream.nativecore.RowFields;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/**
 * Writes the attributes of one row after the other in the bytes that {@code
 * crates/attribute/src/record.rs} draws. Not for several threads.
 *
 * <p>Values are a {@link String} for a keyword, a collection or an array of them for keywords, a
 * whole number for i64, any finite number for f64, a {@link Boolean}, and for a timestamp an {@link
 * Instant}, milliseconds as a whole number, or RFC 3339 as a text. A number without a fraction is a
 * whole number.
 */
public final class AttributesEncoder {

    /** Most bytes of all attributes of a row. */
    public static final int BYTES_MAX = 64 << 10;

    private static final int KEYWORD_BYTES_MAX = 4 << 10;
    private static final int LIST_MAX = 1 << 10;
    private static final int HEADER = 3;

    /** A column without a value. */
    private static final int NOTHING = -1;

    private final Schema schema;
    private final int[] from;
    private final int[] to;
    private ByteBuffer bytes = little(256);
    private int size;
    private String problem = "";

    /** An encoder for rows of this schema. */
    public AttributesEncoder(Schema schema) {
        this.schema = schema;
        from = new int[schema.size()];
        to = new int[schema.size()];
        clear();
    }

    /** Forgets all values. */
    public void clear() {
        bytes.clear();
        Arrays.fill(from, NOTHING);
        size = 0;
    }

    /**
     * Sets the value of an attribute; a later one replaces an earlier one.
     *
     * @param value not null
     * @return why the value was refused, or null
     */
    public Refusal set(int column, Object value) {
        Schema.Attribute attribute = schema.attribute(column);
        int began = bytes.position();
        reserve(HEADER);
        bytes.putShort((short) column).put((byte) attribute.kind().ordinal());
        Refusal refusal = put(attribute, value);
        int others = size - (from[column] == NOTHING ? 0 : to[column] - from[column]);
        if (refusal == null && others + bytes.position() - began > BYTES_MAX) {
            refusal = Refusal.TOO_LARGE;
        }
        if (refusal != null) {
            bytes.position(began);
            problem =
                    refusal == Refusal.TOO_LARGE
                            ? "the attribute '" + attribute.name() + "' is too large"
                            : "the attribute '"
                                    + attribute.name()
                                    + "' takes "
                                    + attribute.kind().key();
            return refusal;
        }
        size = others + bytes.position() - began;
        from[column] = began;
        to[column] = bytes.position();
        return null;
    }

    /** True if the attribute has a value. */
    public boolean has(int column) {
        return from[column] != NOTHING;
    }

    /** Removes the value of an attribute. */
    public void unset(int column) {
        if (from[column] != NOTHING) {
            size -= to[column] - from[column];
            from[column] = NOTHING;
        }
    }

    /** Takes over all values of a row; later calls replace single ones. */
    public void setAll(byte[] attributes) {
        ByteBuffer values = ByteBuffer.wrap(attributes).order(ByteOrder.LITTLE_ENDIAN);
        while (values.hasRemaining()) {
            int began = values.position();
            int column = values.getShort(began) & 0xffff;
            AttributeValues.skip(values);
            reserve(values.position() - began);
            unset(column);
            from[column] = bytes.position();
            bytes.put(attributes, began, values.position() - began);
            to[column] = bytes.position();
            size += to[column] - from[column];
        }
    }

    /** What the last refused value is, in words. */
    public String problem() {
        return problem;
    }

    /** The attributes that were set. */
    public byte[] build() {
        if (size == 0) {
            return RowFields.NO_ATTRIBUTES;
        }
        byte[] all = new byte[size];
        int at = 0;
        for (int column = 0; column < from.length; column++) {
            if (from[column] != NOTHING) {
                int length = to[column] - from[column];
                bytes.get(from[column], all, at, length);
                at += length;
            }
        }
        return all;
    }

    private Refusal put(Schema.Attribute attribute, Object value) {
        return switch (attribute.kind()) {
            case KEYWORD -> value instanceof String text ? text(text, KEYWORD_BYTES_MAX) : wrong();
            case TEXT -> value instanceof String text ? text(text, BYTES_MAX) : wrong();
            case KEYWORDS -> list(value);
            case I64 -> whole(value);
            case TIMESTAMP -> moment(value);
            case F64 -> number(value);
            case BOOL -> {
                if (!(value instanceof Boolean truth)) {
                    yield wrong();
                }
                reserve(1);
                bytes.put((byte) (truth ? 1 : 0));
                yield null;
            }
        };
    }

    private static Refusal wrong() {
        return Refusal.WRONG_TYPE;
    }

    private Refusal text(String text, int bytesMax) {
        if (text.length() > bytesMax) {
            return Refusal.TOO_LARGE;
        }
        if (!Texts.isWhole(text)) {
            return wrong();
        }
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        if (utf8.length > bytesMax) {
            return Refusal.TOO_LARGE;
        }
        reserve(Integer.BYTES + utf8.length);
        bytes.putInt(utf8.length).put(utf8);
        return null;
    }

    private Refusal list(Object value) {
        List<?> texts =
                value instanceof Collection<?> list
                        ? new ArrayList<>(list)
                        : value instanceof String[] array ? Arrays.asList(array) : null;
        if (texts == null) {
            return wrong();
        }
        if (texts.size() > LIST_MAX) {
            return Refusal.TOO_LARGE;
        }
        reserve(Short.BYTES);
        bytes.putShort((short) texts.size());
        for (Object one : texts) {
            if (!(one instanceof String text) || !Texts.isWhole(text)) {
                return wrong();
            }
            byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
            if (utf8.length > KEYWORD_BYTES_MAX) {
                return Refusal.TOO_LARGE;
            }
            reserve(Short.BYTES + utf8.length);
            bytes.putShort((short) utf8.length).put(utf8);
        }
        return null;
    }

    private Refusal whole(Object value) {
        Long whole = value instanceof Number number ? wholeOf(number) : null;
        if (whole == null) {
            return wrong();
        }
        reserve(Long.BYTES);
        bytes.putLong(whole);
        return null;
    }

    private Refusal moment(Object value) {
        if (value instanceof Instant instant) {
            try {
                return whole(instant.toEpochMilli());
            } catch (ArithmeticException e) {
                return wrong();
            }
        }
        return whole(value instanceof String text ? Texts.moment(text) : value);
    }

    private Refusal number(Object value) {
        double number = value instanceof Number some ? some.doubleValue() : Double.NaN;
        if (!Double.isFinite(number)) {
            return wrong();
        }
        reserve(Double.BYTES);
        bytes.putDouble(number);
        return null;
    }

    /** A number without a fraction that 64 bits hold, or null. */
    private static Long wholeOf(Number number) {
        if (number instanceof Double || number instanceof Float) {
            double real = number.doubleValue();
            // From 2^63 on the nearest long is another number.
            return real == Math.rint(real) && Math.abs(real) < 0x1p63 ? (long) real : null;
        }
        if (number instanceof BigInteger large) {
            return large.bitLength() < Long.SIZE ? large.longValue() : null;
        }
        if (number instanceof BigDecimal decimal) {
            // A number of a million digits is not to be expanded.
            boolean small = decimal.precision() - (long) decimal.scale() < 20;
            if (!small || decimal.stripTrailingZeros().scale() > 0) {
                return null;
            }
            return wholeOf(decimal.toBigInteger());
        }
        return number.longValue();
    }

    private void reserve(int more) {
        if (bytes.remaining() < more) {
            ByteBuffer larger = little(Math.max(bytes.capacity() * 2, bytes.position() + more));
            bytes.flip();
            bytes = larger.put(bytes);
        }
    }

    private static ByteBuffer little(int capacity) {
        return ByteBuffer.allocate(capacity).order(ByteOrder.LITTLE_ENDIAN);
    }
}
