package io.vstream.flink.merge;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The answer to a query.
 *
 * @param ticket of the query
 * @param ids of the nearest live records, unsigned, nearest first, ties by id; at most k, each once
 * @param distances of these records; smaller is closer
 * @param fanOut partitions that the query was sent to
 * @param partial true if a partition did not answer in time
 * @param frontier how much of the vector stream all partitions that answered had applied
 */
public record Answer(
        Ticket ticket,
        long[] ids,
        float[] distances,
        int fanOut,
        boolean partial,
        Frontier frontier) {

    private static final int SIZE_MAX = 1 << 20;

    /** Type of a stream of these. */
    public static final RecordType<Answer> TYPE =
            RecordType.of(Answer.class, AnswerSerializer::new);

    private static final class AnswerSerializer extends RecordSerializer<Answer> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<Answer> duplicate() {
            return new AnswerSerializer();
        }

        @Override
        public Answer createInstance() {
            return new Answer(
                    new Ticket(0, 0, 1, 0, 0, false),
                    new long[0],
                    new float[0],
                    0,
                    false,
                    Frontier.NONE);
        }

        @Override
        public Answer copy(Answer from) {
            return from;
        }

        @Override
        public void serialize(Answer answer, DataOutputView target) throws IOException {
            answer.ticket.write(target);
            target.writeInt(answer.ids.length);
            for (long id : answer.ids) {
                target.writeLong(id);
            }
            floats().write(answer.distances, target);
            target.writeShort(answer.fanOut);
            target.writeBoolean(answer.partial);
            answer.frontier.write(target);
        }

        @Override
        public Answer deserialize(DataInputView source) throws IOException {
            Ticket ticket = Ticket.read(source);
            int size = source.readInt();
            if (size < 0 || size > SIZE_MAX) {
                throw new IOException("An answer claims " + size + " rows.");
            }
            long[] ids = new long[size];
            for (int i = 0; i < size; i++) {
                ids[i] = source.readLong();
            }
            return new Answer(
                    ticket,
                    ids,
                    floats().read(source),
                    source.readUnsignedShort(),
                    source.readBoolean(),
                    Frontier.read(source));
        }
    }
}
