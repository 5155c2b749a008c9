package io.vstream.flink.row;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.TemporalAccessor;
import java.util.Locale;

/** Checks and readings of texts. */
public final class Texts {

    private static final DateTimeFormatter FORM =
            new DateTimeFormatterBuilder()
                    .append(DateTimeFormatter.ISO_LOCAL_DATE)
                    .optionalStart()
                    .appendLiteral('T')
                    .append(DateTimeFormatter.ISO_LOCAL_TIME)
                    .optionalStart()
                    .appendOffsetId()
                    .toFormatter(Locale.ROOT);

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

    /**
     * Milliseconds since 1970 of a moment as RFC 3339 writes it, or null. As in filters, a text
     * without an offset is UTC, and a date alone is its midnight.
     */
    static Long moment(String text) {
        try {
            TemporalAccessor read =
                    FORM.parseBest(
                            text.replace(' ', 'T'),
                            OffsetDateTime::from,
                            LocalDateTime::from,
                            LocalDate::from);
            OffsetDateTime moment;
            if (read instanceof OffsetDateTime whole) {
                moment = whole;
            } else if (read instanceof LocalDateTime local) {
                moment = local.atOffset(ZoneOffset.UTC);
            } else {
                moment = LocalDate.from(read).atStartOfDay().atOffset(ZoneOffset.UTC);
            }
            return moment.toInstant().toEpochMilli();
        } catch (DateTimeException | ArithmeticException e) {
            return null;
        }
    }
}
