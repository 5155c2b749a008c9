package io.vstream.flink.route;

import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One query on its way to one partition.
 *
 * @param ticket what stays with the query
 * @param shard any shard of the partition
 * @param inFanOut true if a query like this would visit the partition; only an audit goes further
 * @param expected copies that were sent in all
 * @param routedMillis when the copies were sent, milliseconds since 1970
 * @param vector the collection's dimension, all finite
 */
public record QueryCopy(
        Ticket ticket,
        int shard,
        boolean inFanOut,
        int expected,
        long routedMillis,
        float[] vector) {

    /** Type of a stream of these. */
    public static final RecordType<QueryCopy> TYPE =
            RecordType.of(QueryCopy.class, QueryCopySerializer::new);

    private static final class QueryCopySerializer extends RecordSerializer<QueryCopy> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<QueryCopy> duplicate() {
            return new QueryCopySerializer();
        }

        @Override
        public QueryCopy createInstance() {
            return new QueryCopy(new Ticket(0, 0, 1, 0, 0, false), 0, true, 1, 0, new float[0]);
        }

        @Override
        public QueryCopy copy(QueryCopy from) {
            return new QueryCopy(
                    from.ticket,
                    from.shard,
                    from.inFanOut,
                    from.expected,
                    from.routedMillis,
                    from.vector.clone());
        }

        @Override
        public void serialize(QueryCopy copy, DataOutputView target) throws IOException {
            copy.ticket.write(target);
            target.writeShort(copy.shard);
            target.writeBoolean(copy.inFanOut);
            target.writeShort(copy.expected);
            target.writeLong(copy.routedMillis);
            floats().write(copy.vector, target);
        }

        @Override
        public QueryCopy deserialize(DataInputView source) throws IOException {
            return new QueryCopy(
                    Ticket.read(source),
                    source.readUnsignedShort(),
                    source.readBoolean(),
                    source.readUnsignedShort(),
                    source.readLong(),
                    floats().read(source));
        }
    }
}
