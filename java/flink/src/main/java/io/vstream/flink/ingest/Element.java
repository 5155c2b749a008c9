package io.vstream.flink.ingest;

import java.util.Locale;

/**
 * How a number of a stored vector is held, and so which numbers a collection takes. The same rules
 * as in the engine ({@code crates/vector/src/element.rs}), which refuses what passes here wrongly.
 */
public enum Element {
    /** Single precision. */
    F32,
    /** Half precision. */
    F16,
    /** The upper half of single precision. */
    BF16,
    /** Whole numbers from 0 to 255. */
    U8,
    /** Whole numbers from -128 to 127. */
    I8;

    private static final int U8_MAX = 255;

    /** The middle between the largest half and 2^16: from here on the nearest is infinite. */
    private static final float F16_END = 65_520;

    /** The same for BF16: between the largest upper half of a single and 2^128. */
    private static final float BF16_END = Float.intBitsToFloat(0x7f7f_8000);

    /**
     * The element of a normalised job.
     *
     * @throws IllegalArgumentException if there is none of that name
     */
    public static Element of(String name) {
        return valueOf(name.toUpperCase(Locale.ROOT));
    }

    /** True if the finite {@code value} can be held: exactly by an integer, else rounded. */
    public boolean accepts(float value) {
        return switch (this) {
            case F32 -> true;
            case F16 -> Math.abs(value) < F16_END;
            case BF16 -> Math.abs(value) < BF16_END;
            case U8 -> value >= 0 && value <= U8_MAX && value == (int) value;
            case I8 -> value == (byte) value;
        };
    }
}
