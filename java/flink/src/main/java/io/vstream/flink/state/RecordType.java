package io.vstream.flink.state;

import java.util.function.Supplier;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/**
 * Names the serializer of a record type, so that Flink never falls back to a generic one.
 *
 * @param <T> type of the record
 */
public final class RecordType<T> extends TypeInformation<T> {

    private static final long serialVersionUID = 1L;

    private final Class<T> type;
    private final TypeSerializer<T> serializer;

    private RecordType(Class<T> type, TypeSerializer<T> serializer) {
        this.type = type;
        this.serializer = serializer;
    }

    /**
     * @param type class of the records
     * @param serializer makes the serializer
     */
    public static <T> RecordType<T> of(
            Class<T> type, Supplier<? extends TypeSerializer<T>> serializer) {
        return new RecordType<>(type, serializer.get());
    }

    @Override
    public TypeSerializer<T> createSerializer(SerializerConfig config) {
        return serializer.duplicate();
    }

    @Override
    public boolean isBasicType() {
        return false;
    }

    @Override
    public boolean isTupleType() {
        return false;
    }

    @Override
    public int getArity() {
        return 1;
    }

    @Override
    public int getTotalFields() {
        return 1;
    }

    @Override
    public Class<T> getTypeClass() {
        return type;
    }

    @Override
    public boolean isKeyType() {
        return false;
    }

    @Override
    public String toString() {
        return "RecordType(" + type.getSimpleName() + ")";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof RecordType<?> that
                && that.type == type
                && that.serializer.equals(serializer);
    }

    @Override
    public int hashCode() {
        return type.hashCode();
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof RecordType;
    }
}
