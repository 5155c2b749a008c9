package io.vstream.flink;

import io.vstream.flink.ingest.AnswerOrder;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.EpochClock;
import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
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
 * @param filter JSON in the form that users of Qdrant know; null to ask all rows
 * @param with attributes that the rows of the answer are to carry, and {@code payload}
 * @param radius largest distance of a row, or NaN for any
 * @param group that is asked, where rows are in isolated groups; empty otherwise
 * @param order of the answer in a group; {@link Order#DISTANCE} for the nearest rows
 */
@TypeInfo(VectorQuery.Types.class)
public record VectorQuery(
        long id,
        float[] vector,
        int k,
        boolean exact,
        String filter,
        List<String> with,
        float radius,
        String group,
        Order order) {

    /** Type of a stream of these. */
    public static final RecordType<VectorQuery> TYPE =
            RecordType.of(VectorQuery.class, QuerySerializer::new);

    /** Asks all rows, and for ids and distances alone. */
    public VectorQuery(long id, float[] vector, int k, boolean exact) {
        this(id, vector, k, exact, null, List.of(), Float.NaN, "", Order.DISTANCE);
    }

    /** Asks for as many rows as the search was built with. */
    public static VectorQuery of(long id, float... vector) {
        return new VectorQuery(id, vector, 0, false);
    }

    /**
     * The question as the job's steps take it.
     *
     * @param usualK rows of a question that does not say
     */
    public Incoming asIncoming(int usualK) {
        Incoming in = new Incoming();
        in.kind = Incoming.Kind.QUERY;
        in.id = id;
        in.vector = vector;
        in.k = k == 0 ? usualK : k;
        in.effort = exact ? -1 : 0;
        in.intendedNanos = EpochClock.nanos();
        in.measured = true;
        in.filter = filter;
        in.with = with.toArray(String[]::new);
        in.radius = radius;
        in.group = group;
        in.order =
                AnswerOrder.json(
                        order.text(), order.rank(), order.parameters(), in.vector.length > 0);
        return in;
    }

    /** The same question, for {@code rows} rows. */
    public VectorQuery withK(int rows) {
        return new VectorQuery(id, vector, rows, exact, filter, with, radius, group, order);
    }

    /** The same question, with an exact answer. */
    public VectorQuery withExactAnswer() {
        return new VectorQuery(id, vector, k, true, filter, with, radius, group, order);
    }

    /**
     * The same question, about the rows for which a filter holds: {@code {"must":[{"key":"price",
     * "range":{"lt":10}}]}}. A filter that is none, or none of the collection, refuses the query.
     */
    public VectorQuery where(String json) {
        return new VectorQuery(id, vector, k, exact, json, with, radius, group, order);
    }

    /** The same question, whose rows carry these attributes, or their {@code payload}. */
    public VectorQuery with(String... names) {
        return new VectorQuery(id, vector, k, exact, filter, List.of(names), radius, group, order);
    }

    /** The same question, about rows that are at most this far. */
    public VectorQuery within(float distance) {
        return new VectorQuery(id, vector, k, exact, filter, with, distance, group, order);
    }

    /** The same question to one group, whose answer is exact. */
    public VectorQuery in(String askedGroup) {
        return new VectorQuery(id, vector, k, exact, filter, with, radius, askedGroup, order);
    }

    /**
     * The same question about words in attributes of type {@code text}: {@code invoice "last year"
     * -paid}. The answer is in the order of BM25; with a vector, in one of both. A question without
     * a vector is {@code VectorQuery.of(id).in(group).matching(words)}.
     */
    public VectorQuery matching(String words) {
        Order now = new Order(words, order.rank, order.parameters);
        return new VectorQuery(id, vector, k, exact, filter, with, radius, group, now);
    }

    /** The same question, whose answer is in the order of an expression, the largest first. */
    public VectorQuery rankedBy(String expression, Map<String, Double> parameters) {
        Order now = new Order(order.text, expression, Map.copyOf(parameters));
        return new VectorQuery(id, vector, k, exact, filter, with, radius, group, now);
    }

    /**
     * The order of an answer.
     *
     * @param text words, or null
     * @param rank expression, or null
     * @param parameters of the expression by name, without {@code $}
     */
    public record Order(String text, String rank, Map<String, Double> parameters) {

        /** The nearest rows. */
        public static final Order DISTANCE = new Order(null, null, Map.of());

        private void write(DataOutputView target) throws IOException {
            write(text, target);
            write(rank, target);
            target.writeShort(parameters.size());
            for (Map.Entry<String, Double> one : parameters.entrySet()) {
                write(one.getKey(), target);
                target.writeDouble(one.getValue());
            }
        }

        private static void write(String text, DataOutputView target) throws IOException {
            target.writeBoolean(text != null);
            if (text != null) {
                RowFieldsBlock.write(text.getBytes(StandardCharsets.UTF_8), target);
            }
        }

        private static Order read(DataInputView source) throws IOException {
            String text = readText(source);
            String rank = readText(source);
            Map<String, Double> parameters = new LinkedHashMap<>();
            for (int left = source.readUnsignedShort(); left > 0; left--) {
                parameters.put(readText(source), source.readDouble());
            }
            return new Order(text, rank, parameters);
        }

        private static String readText(DataInputView source) throws IOException {
            return source.readBoolean()
                    ? new String(RowFieldsBlock.bytes(source), StandardCharsets.UTF_8)
                    : null;
        }
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
            return new VectorQuery(
                    from.id,
                    from.vector.clone(),
                    from.k,
                    from.exact,
                    from.filter,
                    from.with,
                    from.radius,
                    from.group,
                    from.order);
        }

        @Override
        public void serialize(VectorQuery query, DataOutputView target) throws IOException {
            target.writeLong(query.id);
            floats().write(query.vector, target);
            target.writeInt(query.k);
            target.writeBoolean(query.exact);
            boolean filtered = query.filter != null;
            target.writeBoolean(filtered);
            if (filtered) {
                RowFieldsBlock.write(query.filter.getBytes(StandardCharsets.UTF_8), target);
            }
            target.writeShort(query.with.size());
            for (String name : query.with) {
                RowFieldsBlock.writeName(name, target);
            }
            target.writeFloat(query.radius);
            RowFieldsBlock.writeName(query.group, target);
            query.order.write(target);
        }

        @Override
        public VectorQuery deserialize(DataInputView source) throws IOException {
            long id = source.readLong();
            float[] vector = floats().read(source);
            int k = source.readInt();
            boolean exact = source.readBoolean();
            String filter =
                    source.readBoolean()
                            ? new String(RowFieldsBlock.bytes(source), StandardCharsets.UTF_8)
                            : null;
            String[] with = new String[source.readUnsignedShort()];
            for (int i = 0; i < with.length; i++) {
                with[i] = source.readUTF();
            }
            float radius = source.readFloat();
            String group = source.readUTF();
            Order order = Order.read(source);
            return new VectorQuery(
                    id, vector, k, exact, filter, List.of(with), radius, group, order);
        }
    }
}
