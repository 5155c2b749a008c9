package io.vstream.flink.row;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Writes and reads values of attributes by name, as a program gives them: of any type that an
 * attribute may have, checked against no schema, and null.
 */
public final class AnyValues {

    private static final int NULL = 0;
    private static final int TEXT = 1;
    private static final int TEXTS = 2;
    private static final int WHOLE = 3;
    private static final int REAL = 4;
    private static final int TRUTH = 5;
    private static final int MOMENT = 6;
    private static final int DECIMAL = 7;

    /** Something else, which no attribute takes; its text, for the message. */
    private static final int OTHER = 8;

    private static final int TEXT_MAX = 1 << 22;
    private static final int COUNT_MAX = 1 << 16;

    /** A value of a type that no attribute has, behind a serializer. */
    private record Unusable(String text) {}

    private AnyValues() {}

    /** Writes all values; cost: a few bytes and the texts. */
    public static void write(Map<String, Object> values, DataOutputView out) throws IOException {
        out.writeInt(values.size());
        for (Map.Entry<String, Object> one : values.entrySet()) {
            text(one.getKey(), out);
            write(one.getValue(), out);
        }
    }

    /** Reads what {@link #write} wrote. */
    public static Map<String, Object> read(DataInputView in) throws IOException {
        int size = count(in);
        if (size == 0) {
            return Map.of();
        }
        Map<String, Object> values = new LinkedHashMap<>();
        for (int i = 0; i < size; i++) {
            values.put(text(in), value(in));
        }
        return values;
    }

    private static void write(Object value, DataOutputView out) throws IOException {
        if (value == null) {
            out.writeByte(NULL);
        } else if (value instanceof String text) {
            out.writeByte(TEXT);
            text(text, out);
        } else if (value instanceof Collection<?> list) {
            texts(list, out);
        } else if (value instanceof String[] array) {
            texts(Arrays.asList(array), out);
        } else if (value instanceof Boolean truth) {
            out.writeByte(TRUTH);
            out.writeBoolean(truth);
        } else if (value instanceof Instant moment) {
            out.writeByte(MOMENT);
            out.writeLong(moment.getEpochSecond());
            out.writeInt(moment.getNano());
        } else if (value instanceof Number number) {
            number(number, out);
        } else {
            out.writeByte(OTHER);
            text(value.getClass().getName(), out);
        }
    }

    private static void number(Number number, DataOutputView out) throws IOException {
        if (number instanceof Double || number instanceof Float) {
            out.writeByte(REAL);
            out.writeDouble(number.doubleValue());
        } else if (number instanceof Long
                || number instanceof Integer
                || number instanceof Short
                || number instanceof Byte) {
            out.writeByte(WHOLE);
            out.writeLong(number.longValue());
        } else {
            out.writeByte(DECIMAL);
            text(number.toString(), out);
        }
    }

    private static void texts(Collection<?> list, DataOutputView out) throws IOException {
        for (Object one : list) {
            if (!(one instanceof String)) {
                out.writeByte(OTHER);
                text("a list of something else than texts", out);
                return;
            }
        }
        out.writeByte(TEXTS);
        // Of more than can be read only so many: these are too many as well.
        int left = Math.min(list.size(), COUNT_MAX);
        out.writeInt(left);
        for (Object one : list) {
            if (left-- == 0) {
                return;
            }
            text((String) one, out);
        }
    }

    private static Object value(DataInputView in) throws IOException {
        int kind = in.readByte();
        return switch (kind) {
            case NULL -> null;
            case TEXT -> text(in);
            case TEXTS -> {
                int size = count(in);
                List<String> texts = new ArrayList<>(size);
                for (int i = 0; i < size; i++) {
                    texts.add(text(in));
                }
                yield texts;
            }
            case WHOLE -> in.readLong();
            case REAL -> in.readDouble();
            case TRUTH -> in.readBoolean();
            case MOMENT -> Instant.ofEpochSecond(in.readLong(), in.readInt());
            case DECIMAL -> decimal(text(in));
            case OTHER -> new Unusable(text(in));
            default -> throw new IOException("A record claims a value of kind " + kind + ".");
        };
    }

    private static Object decimal(String text) {
        try {
            return new BigDecimal(text);
        } catch (NumberFormatException e) {
            return new Unusable(text);
        }
    }

    private static int count(DataInputView in) throws IOException {
        int count = in.readInt();
        if (count < 0 || count > COUNT_MAX) {
            throw new IOException("A record claims " + count + " values.");
        }
        return count;
    }

    private static void text(String text, DataOutputView out) throws IOException {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        // Of more than can be read only so many: these are too many as well.
        int length = Math.min(utf8.length, TEXT_MAX);
        out.writeInt(length);
        out.write(utf8, 0, length);
    }

    private static String text(DataInputView in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > TEXT_MAX) {
            throw new IOException("A record claims a text of " + length + " bytes.");
        }
        byte[] utf8 = new byte[length];
        in.readFully(utf8);
        return new String(utf8, StandardCharsets.UTF_8);
    }
}
