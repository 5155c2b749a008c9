package io.vstream.flink;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import java.lang.reflect.Type;
import java.util.Map;
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
 * @param id an unsigned number
 * @param vector as many elements as the collection has dimensions; empty to delete the id
 */
@TypeInfo(VectorChange.Types.class)
public record VectorChange(long id, float[] vector) {

    /** Type of a stream of these. */
    public static final RecordType<VectorChange> TYPE =
            RecordType.of(VectorChange.class, ChangeSerializer::new);

    private static final float[] NONE = new float[0];

    /** A new row, or a new vector of an old one. */
    public static VectorChange upsert(long id, float... vector) {
        return new VectorChange(id, vector);
    }

    /** The end of a row; no error if there is none. */
    public static VectorChange delete(long id) {
        return new VectorChange(id, NONE);
    }

    /** True if the id is deleted. */
    public boolean isDelete() {
        return vector.length == 0;
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
            return new VectorChange(from.id, from.vector.clone());
        }

        @Override
        public void serialize(VectorChange change, DataOutputView target) throws IOException {
            target.writeLong(change.id);
            floats().write(change.vector, target);
        }

        @Override
        public VectorChange deserialize(DataInputView source) throws IOException {
            return new VectorChange(source.readLong(), floats().read(source));
        }
    }
}
