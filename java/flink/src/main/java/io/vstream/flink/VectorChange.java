package io.vstream.flink;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.row.AnyValues;
import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.flink.api.common.typeinfo.TypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInfoFactory;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One change of a collection. Changes of one id are applied in the order of the stream, if that
 * stream keeps them in one of its parallel parts, as {@code keyBy} does.
 *
 * <pre>{@code
 * VectorChange.upsert("sku-17", embedding).with("price", 9.5).with("colour", "red");
 * VectorChange.update("sku-17").with("price", 8.0);
 * VectorChange.delete("sku-17");
 * VectorChange.upsert("letter-3", embedding).in("ann");
 * }</pre>
 *
 * @param kind what happens to the row
 * @param id an unsigned number; 0 where ids are texts
 * @param name the id where ids are texts; empty otherwise
 * @param vector of an upsert: as many elements as the collection has dimensions; empty otherwise
 * @param attributes values by name: {@link String}, {@code List<String>}, {@link Long} or {@link
 *     Integer}, {@link Double} or {@link Float}, {@link Boolean}, {@link java.time.Instant}; null
 *     is no value, and in an update removes one
 * @param payload opaque bytes, or null for none; in an update for the present one
 * @param payloadRemoved true if an update removes the payload
 * @param newer the change has an effect only if no change of its id had this number or a larger
 *     one; {@link Long#MIN_VALUE} for a change that always has one
 * @param group of the row, where rows are in isolated groups; empty otherwise
 */
@TypeInfo(VectorChange.Types.class)
public record VectorChange(
        Kind kind,
        long id,
        String name,
        float[] vector,
        Map<String, Object> attributes,
        byte[] payload,
        boolean payloadRemoved,
        long newer,
        String group) {

    /** What happens to a row. */
    public enum Kind {
        /** A new row, or a new vector and new attributes of an old one. */
        UPSERT,
        /** Other attributes or another payload; the vector stays. */
        UPDATE,
        /** The end of a row. */
        DELETE,
        /** The end of a group with all its rows. */
        DROP_GROUP
    }

    /** Type of a stream of these. */
    public static final RecordType<VectorChange> TYPE =
            RecordType.of(VectorChange.class, ChangeSerializer::new);

    private static final Kind[] KINDS = Kind.values();
    private static final float[] NONE = new float[0];

    /** A row that carries nothing, or without a vector the end of one. */
    public VectorChange(long id, float[] vector) {
        this(vector.length == 0 ? Kind.DELETE : Kind.UPSERT, id, "", vector);
    }

    private VectorChange(Kind kind, long id, String name, float[] vector) {
        this(kind, id, name, vector, Map.of(), null, false, Incoming.ANY_ORDER, "");
    }

    /** Refuses null where something must be. */
    public VectorChange {
        Objects.requireNonNull(kind, "kind");
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(vector, "vector");
        Objects.requireNonNull(attributes, "attributes");
        Objects.requireNonNull(group, "group");
    }

    /** A new row, or a new vector and new attributes of an old one. */
    public static VectorChange upsert(long id, float... vector) {
        return new VectorChange(Kind.UPSERT, id, "", vector);
    }

    /** The same, where ids are texts. */
    public static VectorChange upsert(String id, float... vector) {
        return new VectorChange(Kind.UPSERT, 0, id, vector);
    }

    /** A change of what a row carries; no effect if there is no such row. */
    public static VectorChange update(long id) {
        return new VectorChange(Kind.UPDATE, id, "", NONE);
    }

    /** The same, where ids are texts. */
    public static VectorChange update(String id) {
        return new VectorChange(Kind.UPDATE, 0, id, NONE);
    }

    /** The end of a row; no error if there is none. */
    public static VectorChange delete(long id) {
        return new VectorChange(Kind.DELETE, id, "", NONE);
    }

    /** The same, where ids are texts. */
    public static VectorChange delete(String id) {
        return new VectorChange(Kind.DELETE, 0, id, NONE);
    }

    /** The end of a group with all its rows; no error if there are none. */
    public static VectorChange dropGroup(String group) {
        return new VectorChange(Kind.DROP_GROUP, 0, "", NONE).in(group);
    }

    /** The same change of a row in a group, whose ids are its own. */
    public VectorChange in(String rowGroup) {
        return new VectorChange(
                kind, id, name, vector, attributes, payload, payloadRemoved, newer, rowGroup);
    }

    /** The same change with a value of an attribute; null is no value. */
    public VectorChange with(String attribute, Object value) {
        Map<String, Object> all = new LinkedHashMap<>(attributes);
        all.put(attribute, value);
        return withAll(all);
    }

    /** The same change with these values and no others. */
    public VectorChange withAll(Map<String, Object> values) {
        return new VectorChange(
                kind, id, name, vector, values, payload, payloadRemoved, newer, group);
    }

    /** The same change with a payload. */
    public VectorChange withPayload(byte[] bytes) {
        return new VectorChange(kind, id, name, vector, attributes, bytes, false, newer, group);
    }

    /** The same update, which removes the payload. */
    public VectorChange withoutPayload() {
        return new VectorChange(kind, id, name, vector, attributes, null, true, newer, group);
    }

    /**
     * The same change, with an effect only if no change of its id had this number or a larger one:
     * so an older event does not overwrite a newer one, whichever comes first. The largest number
     * of an id is remembered for seven days, also after its delete.
     */
    public VectorChange ifNewer(long number) {
        return new VectorChange(
                kind, id, name, vector, attributes, payload, payloadRemoved, number, group);
    }

    /** True if the id is deleted. */
    public boolean isDelete() {
        return kind == Kind.DELETE;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof VectorChange that
                && kind == that.kind
                && id == that.id
                && name.equals(that.name)
                && Arrays.equals(vector, that.vector)
                && attributes.equals(that.attributes)
                && Arrays.equals(payload, that.payload)
                && payloadRemoved == that.payloadRemoved
                && newer == that.newer
                && group.equals(that.group);
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, id, name, Arrays.hashCode(vector), attributes, newer, group);
    }

    /** Finds {@link #TYPE}; called by Flink. */
    public static final class Types extends TypeInfoFactory<VectorChange> {
        @Override
        public TypeInformation<VectorChange> createTypeInfo(
                Type type, Map<String, TypeInformation<?>> parameters) {
            return TYPE;
        }
    }

    private static final class ChangeSerializer extends RecordSerializer<VectorChange> {
        private static final long serialVersionUID = 1L;

        private static final int HAS_PAYLOAD = 1;
        private static final int REMOVES_PAYLOAD = 2;
        private static final int HAS_GROUP = 4;

        @Override
        public TypeSerializer<VectorChange> duplicate() {
            return new ChangeSerializer();
        }

        @Override
        public VectorChange createInstance() {
            return delete(0);
        }

        @Override
        public VectorChange copy(VectorChange from) {
            return new VectorChange(
                    from.kind,
                    from.id,
                    from.name,
                    from.vector.clone(),
                    new LinkedHashMap<>(from.attributes),
                    from.payload,
                    from.payloadRemoved,
                    from.newer,
                    from.group);
        }

        @Override
        public void serialize(VectorChange change, DataOutputView target) throws IOException {
            target.writeByte(change.kind.ordinal());
            target.writeLong(change.id);
            RowFieldsBlock.writeName(change.name, target);
            floats().write(change.vector, target);
            AnyValues.write(change.attributes, target);
            target.writeByte(
                    (change.payload == null ? 0 : HAS_PAYLOAD)
                            | (change.payloadRemoved ? REMOVES_PAYLOAD : 0)
                            | (change.group.isEmpty() ? 0 : HAS_GROUP));
            if (change.payload != null) {
                RowFieldsBlock.write(change.payload, target);
            }
            if (!change.group.isEmpty()) {
                RowFieldsBlock.writeName(change.group, target);
            }
            target.writeLong(change.newer);
        }

        @Override
        public VectorChange deserialize(DataInputView source) throws IOException {
            Kind kind = KINDS[source.readByte()];
            long id = source.readLong();
            String name = source.readUTF();
            float[] vector = floats().read(source);
            Map<String, Object> attributes = AnyValues.read(source);
            int flags = source.readByte();
            byte[] payload = (flags & HAS_PAYLOAD) == 0 ? null : RowFieldsBlock.bytes(source);
            boolean removed = (flags & REMOVES_PAYLOAD) != 0;
            String group = (flags & HAS_GROUP) == 0 ? "" : source.readUTF();
            return new VectorChange(
                    kind, id, name, vector, attributes, payload, removed, source.readLong(), group);
        }
    }
}
