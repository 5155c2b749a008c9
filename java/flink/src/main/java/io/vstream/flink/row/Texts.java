package io.vstream.flink.row;

import java.time.DateTimeException;
import java.time.OffsetDateTime;

/** Checks and readings of texts. */
public final class Texts {

    private Texts() {}

    /**
     * True unless the text has half of a character that takes two, which UTF-8 has no bytes for.
     */
    public static boolean isWhole(String text) {
        for (int at = 0; at < text.length(); at++) {
            char one = text.charAt(at);
            if (Character.isSurrogate(one)) {
                boolean pair =
                        Character.isHighSurrogate(one)
                                && at + 1 < text.length()
                                && Character.isLowSurrogate(text.charAt(at + 1));
                if (!pair) {
                    return false;
                }
                at++;
            }
        }
        return true;
    }

    /** Milliseconds since 1970 of a moment as RFC 3339 writes it, or null. */
    static Long moment(String text) {
        try {
            return OffsetDateTime.parse(text.replace(' ', 'T')).toInstant().toEpochMilli();
        } catch (DateTimeException | ArithmeticException e) {
            return null;
        }
    }
}
