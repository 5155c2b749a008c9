package io.vstream.flink.row;

import java.util.Locale;

/**
 * The type of the values of an attribute, as {@code crates/attribute/src/schema.rs} has them: the
 * position is the tag in the bytes.
 */
public enum AttributeKind {
    /** A word that is compared as a whole. */
    KEYWORD,
    /** A list of such words. */
    KEYWORDS,
    /** A whole number. */
    I64,
    /** A finite number. */
    F64,
    /** Yes or no. */
    BOOL,
    /** A moment in milliseconds since 1970-01-01 UTC. */
    TIMESTAMP,
    /** A text that is searched by words. */
    TEXT;

    private static final AttributeKind[] ALL = values();

    /** Its name in settings. */
    public String key() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * The kind of a normalised collection.
     *
     * @throws IllegalArgumentException if there is none of that name
     */
    public static AttributeKind of(String key) {
        return valueOf(key.toUpperCase(Locale.ROOT));
    }

    /** The kind with this tag, or null. */
    static AttributeKind ofTag(int tag) {
        return tag >= 0 && tag < ALL.length ? ALL[tag] : null;
    }
}
