package io.vstream.flink.ingest;

import io.vstream.flink.row.AskedBlock;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.nativecore.Asked;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A checked and numbered query on its way to routing.
 *
 * @param ticket what stays with it
 * @param vector the collection's dimension, all finite
 * @param asked what it asks beside the nearest rows
 */
public record QueryRecord(Ticket ticket, float[] vector, Asked asked) {

    /** A query that asks for the nearest rows alone. */
    public QueryRecord(Ticket ticket, float[] vector) {
        this(ticket, vector, Asked.NOTHING);
    }

    /** Type of a stream of these. */
    public static final RecordType<QueryRecord> TYPE =
            RecordType.of(QueryRecord.class, QueryRecordSerializer::new);

    private static final class QueryRecordSerializer extends RecordSerializer<QueryRecord> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<QueryRecord> duplicate() {
            return new QueryRecordSerializer();
        }

        @Override
        public QueryRecord createInstance() {
            return new QueryRecord(new Ticket(0, 0, 1, 0, 0, false), new float[0]);
        }

        @Override
        public QueryRecord copy(QueryRecord from) {
            return new QueryRecord(from.ticket, from.vector.clone(), from.asked);
        }

        @Override
        public void serialize(QueryRecord record, DataOutputView target) throws IOException {
            record.ticket.write(target);
            floats().write(record.vector, target);
            AskedBlock.write(record.asked, target);
        }

        @Override
        public QueryRecord deserialize(DataInputView source) throws IOException {
            return new QueryRecord(
                    Ticket.read(source), floats().read(source), AskedBlock.read(source));
        }
    }
}
