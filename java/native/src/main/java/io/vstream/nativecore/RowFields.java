package io.vstream.nativecore;

import java.util.Arrays;
import java.util.Objects;

/**
 * What a row carries beside key and vector, or what an update changes of it. Immutable: nobody
 * changes the arrays.
 *
 * @param name the id as a text in a collection of string ids; empty otherwise
 * @param check high half of the 128-bit hash of {@code name}; 0 without a name
 * @param attributes values of attributes, as {@code crates/attribute/src/record.rs} draws them; of
 *     an update those that it sets
 * @param payload opaque bytes, or null for none; of an update null for the present one
 * @param unset columns whose values an update removes, ascending; empty otherwise
 * @param payloadRemoved true if an update removes the payload
 * @param leftOut true in an answer whose attributes and payload did not fit into it
 * @param group of the row, where rows are in isolated groups; empty otherwise and in answers
 */
public record RowFields(
        String name,
        long check,
        byte[] attributes,
        byte[] payload,
        short[] unset,
        boolean payloadRemoved,
        boolean leftOut,
        String group) {

    /** No attribute has a value. */
    public static final byte[] NO_ATTRIBUTES = new byte[0];

    /** An update removes no value. */
    public static final short[] NO_COLUMNS = new short[0];

    /** Nothing beside key and vector. */
    public static final RowFields NONE = of("", 0, NO_ATTRIBUTES, null);

    /** Refuses null where something must be. */
    public RowFields {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(attributes, "attributes");
        Objects.requireNonNull(unset, "unset");
        Objects.requireNonNull(group, "group");
    }

    /** Of a row in no group. */
    public RowFields(
            String name,
            long check,
            byte[] attributes,
            byte[] payload,
            short[] unset,
            boolean payloadRemoved,
            boolean leftOut) {
        this(name, check, attributes, payload, unset, payloadRemoved, leftOut, "");
    }

    /** The same of a row in a group. */
    public RowFields in(String rowGroup) {
        return new RowFields(
                name, check, attributes, payload, unset, payloadRemoved, leftOut, rowGroup);
    }

    /** What a row carries. */
    public static RowFields of(String name, long check, byte[] attributes, byte[] payload) {
        return new RowFields(name, check, attributes, payload, NO_COLUMNS, false, false);
    }

    /** A row that has a name and nothing else. */
    public static RowFields named(String name, long check) {
        return of(name, check, NO_ATTRIBUTES, null);
    }

    /** True if there is nothing: a record that carries this is as one without. */
    public boolean isNone() {
        return name.isEmpty()
                && attributes.length == 0
                && payload == null
                && unset.length == 0
                && !payloadRemoved
                && !leftOut
                && group.isEmpty();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof RowFields that
                && name.equals(that.name)
                && check == that.check
                && Arrays.equals(attributes, that.attributes)
                && Arrays.equals(payload, that.payload)
                && Arrays.equals(unset, that.unset)
                && payloadRemoved == that.payloadRemoved
                && leftOut == that.leftOut
                && group.equals(that.group);
    }

    @Override
    public int hashCode() {
        return 31 * name.hashCode() + Arrays.hashCode(attributes);
    }
}
