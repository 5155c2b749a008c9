package io.vstream.flink.route;

import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.row.AskedBlock;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.nativecore.Asked;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One query, or the acknowledgement of a router, on its way to one partition.
 *
 * @param ticket what stays with the query
 * @param shard any shard of the partition
 * @param inFanOut true if a query like this would visit the partition; only an audit goes further
 * @param expected copies that were sent in all
 * @param bucket in which the query lies, if its cost is to be counted there; else -1
 * @param vector the collection's dimension, all finite; empty for an acknowledgement
 * @param asked what it asks beside the nearest rows
 * @param ack null unless the router acknowledges a command with this
 * @param part number of this copy, where the query goes to parts of a group, several of which may
 *     be in one partition; else {@link #WHOLE}
 */
public record QueryCopy(
        Ticket ticket,
        int shard,
        boolean inFanOut,
        int expected,
        int bucket,
        float[] vector,
        Asked asked,
        CommandAck ack,
        int part) {

    /** Part of a query that asks each partition once. */
    public static final int WHOLE = -1;

    private static final Ticket NO_TICKET = new Ticket(0, 0, 1, 0, 0, false);
    private static final float[] NO_VECTOR = new float[0];

    /** Type of a stream of these. */
    public static final RecordType<QueryCopy> TYPE =
            RecordType.of(QueryCopy.class, QueryCopySerializer::new);

    /** The acknowledgement of a router for the partition of {@code shard}. */
    static QueryCopy of(CommandAck ack, int shard) {
        return new QueryCopy(NO_TICKET, shard, false, 0, -1, NO_VECTOR, Asked.NOTHING, ack, WHOLE);
    }

    private static final class QueryCopySerializer extends RecordSerializer<QueryCopy> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<QueryCopy> duplicate() {
            return new QueryCopySerializer();
        }

        @Override
        public QueryCopy createInstance() {
            return of(null, 0);
        }

        @Override
        public QueryCopy copy(QueryCopy from) {
            return new QueryCopy(
                    from.ticket,
                    from.shard,
                    from.inFanOut,
                    from.expected,
                    from.bucket,
                    from.vector.clone(),
                    from.asked,
                    from.ack,
                    from.part);
        }

        @Override
        public void serialize(QueryCopy copy, DataOutputView target) throws IOException {
            target.writeShort(copy.shard);
            target.writeBoolean(copy.ack != null);
            if (copy.ack != null) {
                copy.ack.write(target);
                return;
            }
            copy.ticket.write(target);
            target.writeBoolean(copy.inFanOut);
            target.writeShort(copy.expected);
            target.writeShort(copy.bucket);
            floats().write(copy.vector, target);
            AskedBlock.write(copy.asked, target);
            target.writeByte(copy.part);
        }

        @Override
        public QueryCopy deserialize(DataInputView source) throws IOException {
            int shard = source.readUnsignedShort();
            if (source.readBoolean()) {
                return of(CommandAck.read(source), shard);
            }
            return new QueryCopy(
                    Ticket.read(source),
                    shard,
                    source.readBoolean(),
                    source.readUnsignedShort(),
                    source.readShort(),
                    floats().read(source),
                    AskedBlock.read(source),
                    null,
                    source.readByte());
        }
    }
}
