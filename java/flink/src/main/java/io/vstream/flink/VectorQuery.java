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
 * One question: which rows are nearest?
 *
 * @param id comes back with the answer; may repeat
 * @param vector as many elements as the collection has dimensions
 * @param k rows wanted, 1 to 1,000, or 0 for as many as the search was built with
 * @param exact true to look at every row
 */
@TypeInfo(VectorQuery.Types.class)
public record VectorQuery(long id, float[] vector, int k, boolean exact) {

    /** Type of a stream of these. */
    public static final RecordType<VectorQuery> TYPE =
            RecordType.of(VectorQuery.class, QuerySerializer::new);

    /** Asks for as many rows as the search was built with. */
    public static VectorQuery of(long id, float... vector) {
        return new VectorQuery(id, vector, 0, false);
    }

    /** The same question, for {@code rows} rows. */
    public VectorQuery withK(int rows) {
        return new VectorQuery(id, vector, rows, exact);
    }

    /** The same question, with an exact answer. */
    public VectorQuery withExactAnswer() {
        return new VectorQuery(id, vector, k, true);
    }

    /** Finds {@link #TYPE}; called by Flink. */
    public static final class Types extends TypeInfoFactory<VectorQuery> {
        @Override
        public TypeInformation<VectorQuery> createTypeInfo(
                Type type, Map<String, TypeInformation<?>> parameters) {
            return TYPE;
        }
    }

    private static final class QuerySerializer extends RecordSerializer<VectorQuery> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<VectorQuery> duplicate() {
            return new QuerySerializer();
        }

        @Override
        public VectorQuery createInstance() {
            return of(0);
        }

        @Override
        public VectorQuery copy(VectorQuery from) {
            return new VectorQuery(from.id, from.vector.clone(), from.k, from.exact);
        }

        @Override
        public void serialize(VectorQuery query, DataOutputView target) throws IOException {
            target.writeLong(query.id);
            floats().write(query.vector, target);
            target.writeInt(query.k);
            target.writeBoolean(query.exact);
        }

        @Override
        public VectorQuery deserialize(DataInputView source) throws IOException {
            return new VectorQuery(
                    source.readLong(),
                    floats().read(source),
                    source.readInt(),
                    source.readBoolean());
        }
    }
}
