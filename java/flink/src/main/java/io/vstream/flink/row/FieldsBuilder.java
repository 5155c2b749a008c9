package io.vstream.flink.row;

import io.vstream.nativecore.RowFields;
import java.util.Arrays;
import java.util.Map;

/**
 * Collects what one record after the other carries beside id and vector, and checks it against the
 * schema. Not for several threads.
 */
public final class FieldsBuilder {

    private final Schema schema;
    private final AttributesEncoder attributes;
    private final NameHash names;
    private final short[] unset;
    private int unsetCount;
    private String name = "";
    private byte[] payload;
    private boolean payloadRemoved;
    private String problem = "";

    /** A builder for rows of this schema. */
    public FieldsBuilder(Schema schema) {
        this.schema = schema;
        attributes = new AttributesEncoder(schema);
        names = schema.names();
        unset = new short[schema.size()];
    }

    /** The schema. */
    public Schema schema() {
        return schema;
    }

    /** Forgets the last record. */
    public void clear() {
        attributes.clear();
        unsetCount = 0;
        name = "";
        payload = null;
        payloadRemoved = false;
        problem = "";
    }

    /**
     * Sets an id that is a text.
     *
     * @return why it was refused, or null
     */
    public Refusal name(String text) {
        if (!schema.textIds() || !names.hash(text)) {
            problem =
                    schema.textIds()
                            ? "an id has 1 to " + NameHash.NAME_BYTES_MAX + " bytes"
                            : "ids of this collection are numbers";
            return Refusal.BAD_ID;
        }
        name = text;
        return null;
    }

    /** The number that stands for the name. */
    public long id() {
        return names.id();
    }

    /** True if an attribute of that name was set or removed. */
    public boolean has(String attribute) {
        int column = schema.column(attribute);
        if (column < 0 || attributes.has(column)) {
            return column >= 0;
        }
        for (int i = 0; i < unsetCount; i++) {
            if (unset[i] == column) {
                return true;
            }
        }
        return false;
    }

    /**
     * Sets the value of an attribute, see {@link AttributesEncoder}; null removes it. An attribute
     * is set once in a record.
     *
     * @return why it was refused, or null
     */
    public Refusal set(String attribute, Object value) {
        int column = schema.column(attribute);
        if (column < 0) {
            String shown = attribute.length() > 64 ? attribute.substring(0, 64) : attribute;
            problem = "the collection has no attribute '" + shown + "'";
            return Refusal.UNKNOWN_ATTRIBUTE;
        }
        if (value == null) {
            attributes.unset(column);
            if (!has(attribute)) {
                unset[unsetCount++] = (short) column;
            }
            return null;
        }
        Refusal refusal = attributes.set(column, value);
        problem = refusal == null ? problem : attributes.problem();
        return refusal;
    }

    /**
     * Sets several attributes.
     *
     * @return why one was refused, or null
     */
    public Refusal setAll(Map<String, Object> values) {
        for (Map.Entry<String, Object> value : values.entrySet()) {
            Refusal refusal = set(value.getKey(), value.getValue());
            if (refusal != null) {
                return refusal;
            }
        }
        return null;
    }

    /**
     * Sets the payload.
     *
     * @return why it was refused, or null
     */
    public Refusal payload(byte[] bytes) {
        if (bytes.length > schema.payloadMax()) {
            problem =
                    "the payload has "
                            + bytes.length
                            + " bytes and may have "
                            + schema.payloadMax();
            return Refusal.TOO_LARGE;
        }
        payload = bytes;
        return null;
    }

    /** Has an update remove the payload. */
    public void removePayload() {
        payloadRemoved = true;
    }

    /** What was refused last, in words. */
    public String problem() {
        return problem;
    }

    /** What a row carries; {@link RowFields#NONE} if nothing. */
    public RowFields row() {
        byte[] values = attributes.build();
        return values.length == 0 && payload == null && name.isEmpty()
                ? RowFields.NONE
                : RowFields.of(name, check(), values, payload);
    }

    /** What an update changes. */
    public RowFields change() {
        short[] columns = Arrays.copyOf(unset, unsetCount);
        Arrays.sort(columns);
        return new RowFields(
                name, check(), attributes.build(), payload, columns, payloadRemoved, false);
    }

    /** The name alone, as a delete carries it. */
    public RowFields nameAlone() {
        return name.isEmpty() ? RowFields.NONE : RowFields.named(name, check());
    }

    private long check() {
        return name.isEmpty() ? 0 : names.check();
    }

    /**
     * What a row carries after an update. An update that would make the attributes larger than a
     * row may have has no effect, as where rows are stored.
     *
     * @param row what it carried
     * @param change what the update changes
     */
    public RowFields updated(RowFields row, RowFields change) {
        AttributesEncoder merged = attributes;
        merged.clear();
        merged.setAll(row.attributes());
        for (short column : change.unset()) {
            merged.unset(column);
        }
        merged.setAll(change.attributes());
        byte[] values = merged.build();
        if (values.length > AttributesEncoder.BYTES_MAX) {
            return row;
        }
        byte[] now =
                change.payload() != null
                        ? change.payload()
                        : change.payloadRemoved() ? null : row.payload();
        return RowFields.of(row.name(), row.check(), values, now);
    }
}
