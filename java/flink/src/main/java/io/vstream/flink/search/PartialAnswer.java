package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The answer of one partition to one query.
 *
 * @param ticket of the query
 * @param partition that answered, or number of the part of a group that did
 * @param expected answers in all
 * @param rows the answer; empty if the partition only takes part in an audit
 * @param frontier how much of the vector stream was applied before the search
 * @param exact the exact answer at the same position of the stream; empty unless audited
 * @param incomplete true if rows were left out: all, since the partition had no time for a search,
 *     or those in a remote level that gave no answer
 */
public record PartialAnswer(
        Ticket ticket,
        int partition,
        int expected,
        Neighbors rows,
        Frontier frontier,
        Neighbors exact,
        boolean incomplete) {

    /** The answer of a search. */
    public PartialAnswer(
            Ticket ticket,
            int partition,
            int expected,
            Neighbors rows,
            Frontier frontier,
            Neighbors exact) {
        this(ticket, partition, expected, rows, frontier, exact, false);
    }

    /** Type of a stream of these. */
    public static final RecordType<PartialAnswer> TYPE =
            RecordType.of(PartialAnswer.class, PartialAnswerSerializer::new);

    private static final class PartialAnswerSerializer extends RecordSerializer<PartialAnswer> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<PartialAnswer> duplicate() {
            return this;
        }

        @Override
        public PartialAnswer createInstance() {
            return new PartialAnswer(
                    new Ticket(0, 0, 1, 0, 0, false),
                    0,
                    1,
                    Neighbors.NONE,
                    Frontier.NONE,
                    Neighbors.NONE,
                    false);
        }

        @Override
        public PartialAnswer copy(PartialAnswer from) {
            return from;
        }

        @Override
        public void serialize(PartialAnswer answer, DataOutputView target) throws IOException {
            answer.ticket.write(target);
            target.writeShort(answer.partition);
            target.writeShort(answer.expected);
            answer.rows.write(target);
            answer.frontier.write(target);
            answer.exact.write(target);
            target.writeBoolean(answer.incomplete);
        }

        @Override
        public PartialAnswer deserialize(DataInputView source) throws IOException {
            return new PartialAnswer(
                    Ticket.read(source),
                    source.readUnsignedShort(),
                    source.readUnsignedShort(),
                    Neighbors.read(source),
                    Frontier.read(source),
                    Neighbors.read(source),
                    source.readBoolean());
        }
    }
}
