package io.vstream.flink.row;

/** Why what a row carries is refused. */
public enum Refusal {
    /** The collection has no attribute of that name. */
    UNKNOWN_ATTRIBUTE,
    /** The value has another type than the attribute. */
    WRONG_TYPE,
    /** A keyword, a list, the attributes of a row or a payload are too large. */
    TOO_LARGE,
    /** An id that the collection cannot have. */
    BAD_ID
}
