package io.vstream.nativecore;

import java.util.Arrays;

/**
 * What a query asks beside the nearest rows. Immutable: nobody changes the arrays.
 *
 * @param filter compiled by {@link NativeFilters}; empty for none
 * @param columns attributes that rows are to carry, ascending
 * @param payload true if rows are to carry their payload
 * @param names true if rows are to carry their string ids
 * @param radius largest distance of a row, or NaN for any
 * @param group that is asked, where rows are in isolated groups; empty otherwise
 * @param order of the answer in a group, in JSON: {@code text}, {@code rank}, {@code parameters},
 *     and {@code vector}, true if the query has one; empty for the nearest rows
 */
public record Asked(
        byte[] filter,
        short[] columns,
        boolean payload,
        boolean names,
        float radius,
        String group,
        String order) {

    /** Of a collection without groups. */
    public Asked(byte[] filter, short[] columns, boolean payload, boolean names, float radius) {
        this(filter, columns, payload, names, radius, "", "");
    }

    /** No filter. */
    public static final byte[] NO_FILTER = new byte[0];

    /** The nearest rows and nothing else. */
    public static final Asked NOTHING =
            new Asked(NO_FILTER, RowFields.NO_COLUMNS, false, false, Float.NaN);

    /** True if rows are to carry something. */
    public boolean wantsFields() {
        return columns.length > 0 || payload || names;
    }

    /** True if a query that asks this is as one that asks nothing. */
    public boolean isNothing() {
        return filter.length == 0
                && !wantsFields()
                && Float.isNaN(radius)
                && group.isEmpty()
                && order.isEmpty();
    }

    /** The same question without what rows carry, as an audit asks it. */
    public Asked withoutFields() {
        return new Asked(filter, RowFields.NO_COLUMNS, false, false, radius, group, order);
    }

    /** The same question to a group. */
    public Asked in(String askedGroup) {
        return in(askedGroup, order);
    }

    /** The same question to a group, whose answer has an order of its own. */
    public Asked in(String askedGroup, String askedOrder) {
        return new Asked(filter, columns, payload, names, radius, askedGroup, askedOrder);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Asked that
                && Arrays.equals(filter, that.filter)
                && Arrays.equals(columns, that.columns)
                && payload == that.payload
                && names == that.names
                && Float.compare(radius, that.radius) == 0
                && group.equals(that.group)
                && order.equals(that.order);
    }

    @Override
    public int hashCode() {
        return 31 * Arrays.hashCode(filter) + Arrays.hashCode(columns);
    }
}
