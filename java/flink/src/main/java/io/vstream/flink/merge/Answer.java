package io.vstream.flink.merge;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInfoFactory;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The answer to a query. It may be kept in the state of any operator. The arrays are never changed.
 *
 * @param ticket of the query
 * @param ids of the nearest live records, unsigned, nearest first, ties by id; at most k, each
 *     once. Where ids are texts these are hashes, and {@code rows} has the texts
 * @param distances of these records; smaller is closer
 * @param rows what these records carry of what the query asked for; empty if it asked for nothing
 *     and ids are numbers
 * @param fanOut partitions that the query was sent to
 * @param partial true if a partition did not answer in time
 * @param frontier how much of the vector stream all partitions that answered had applied
 */
@TypeInfo(Answer.Types.class)
public record Answer(
        Ticket ticket,
        long[] ids,
        float[] distances,
        AnswerRow[] rows,
        int fanOut,
        boolean partial,
        Frontier frontier) {

    private static final int SIZE_MAX = 1 << 20;

    /** Set in the number of ids of an answer that is followed by what its rows carry. */
    private static final int WITH_ROWS = 1 << 31;

    /** An answer of which nothing beside ids and distances was asked. */
    public Answer(
            Ticket ticket,
            long[] ids,
            float[] distances,
            int fanOut,
            boolean partial,
            Frontier frontier) {
        this(ticket, ids, distances, AnswerRow.NONE, fanOut, partial, frontier);
    }

    /** Type of a stream of these. */
    public static final RecordType<Answer> TYPE =
            RecordType.of(Answer.class, AnswerSerializer::new);

    /** Two answers are equal if all they say is. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Answer that
                && ticket.equals(that.ticket)
                && Arrays.equals(ids, that.ids)
                && Arrays.equals(distances, that.distances)
                && Arrays.equals(rows, that.rows)
                && fanOut == that.fanOut
                && partial == that.partial
                && frontier.equals(that.frontier);
    }

    @Override
    public int hashCode() {
        return 31 * ticket.hashCode() + Arrays.hashCode(ids);
    }

    /** Finds {@link #TYPE}; called by Flink. */
    public static final class Types extends TypeInfoFactory<Answer> {
        @Override
        public TypeInformation<Answer> createTypeInfo(
                Type type, Map<String, TypeInformation<?>> parameters) {
            return TYPE;
        }
    }

    /**
     * Layout 2: the fields in order, arrays with their length first; rows last, if there are any.
     * Layout 1 has none.
     */
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
            boolean carry = answer.rows.length > 0;
            target.writeInt(carry ? answer.ids.length | WITH_ROWS : answer.ids.length);
            for (long id : answer.ids) {
                target.writeLong(id);
            }
            floats().write(answer.distances, target);
            target.writeShort(answer.fanOut);
            target.writeBoolean(answer.partial);
            answer.frontier.write(target);
            if (carry) {
                for (AnswerRow row : answer.rows) {
                    row.write(target);
                }
            }
        }

        @Override
        public Answer deserialize(DataInputView source) throws IOException {
            Ticket ticket = Ticket.read(source);
            int head = source.readInt();
            int size = head & ~WITH_ROWS;
            if (size > SIZE_MAX) {
                throw new IOException("An answer claims " + size + " rows.");
            }
            long[] ids = new long[size];
            for (int i = 0; i < size; i++) {
                ids[i] = source.readLong();
            }
            float[] distances = floats().read(source);
            int fanOut = source.readUnsignedShort();
            boolean partial = source.readBoolean();
            Frontier frontier = Frontier.read(source);
            AnswerRow[] rows = size == head ? AnswerRow.NONE : new AnswerRow[size];
            for (int i = 0; i < rows.length; i++) {
                rows[i] = AnswerRow.read(source);
            }
            return new Answer(ticket, ids, distances, rows, fanOut, partial, frontier);
        }

        @Override
        public TypeSerializerSnapshot<Answer> snapshotConfiguration() {
            return new Layout();
        }
    }

    /** Layout of the bytes. */
    public static final class Layout extends RecordSerializer.Snapshot<Answer> {
        /** Called by Flink. */
        public Layout() {
            super(2, 1);
        }

        @Override
        public TypeSerializer<Answer> restoreSerializer() {
            return new AnswerSerializer();
        }
    }
}
