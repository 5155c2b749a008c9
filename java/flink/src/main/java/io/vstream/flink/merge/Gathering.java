package io.vstream.flink.merge;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.search.Neighbors;
import io.vstream.flink.state.RecordSerializer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The state of one query in merge: on the heap, and in checkpoints its keyed state. */
final class Gathering {

    /** Words of the partitions that answered in every stored query: enough for the first 128. */
    private static final int WORDS = 2;

    private static final int PARTITIONS_MAX = 4_096;
    private static final int ANSWERED = 1;
    private static final int LACKING = 2;
    private static final int WIDE = 4;

    private final Ticket ticket;
    private final int expected;

    /** A bit for each partition that answered; longer once one above the first 128 has. */
    private long[] seen = new long[WORDS];

    private final List<Neighbors> rows = new ArrayList<>(4);
    private final List<Neighbors> exact = new ArrayList<>(0);
    private Frontier frontier;
    private boolean answered;
    private boolean lacking;

    /**
     * @param ticket of the query
     * @param expected partial answers in all
     */
    Gathering(Ticket ticket, int expected) {
        this.ticket = ticket;
        this.expected = expected;
    }

    Ticket ticket() {
        return ticket;
    }

    int expected() {
        return expected;
    }

    /** Rows of the partitions that answered before the deadline. */
    List<Neighbors> rows() {
        return rows;
    }

    /** Exact rows of these partitions, for an audit. */
    List<Neighbors> exact() {
        return exact;
    }

    /** The frontier behind all rows. */
    Frontier frontier() {
        return frontier == null ? Frontier.NONE : frontier;
    }

    /** Notes how far a partition was when it answered. */
    void include(Frontier partial) {
        frontier = frontier == null ? partial : frontier.min(partial);
    }

    /** True once an answer was sent: what comes later is a straggler. */
    boolean answered() {
        return answered;
    }

    /** Notes whether a partition left out rows. */
    void lacks(boolean rows) {
        lacking |= rows;
    }

    /** True if some partition left out rows. */
    boolean lacking() {
        return lacking;
    }

    /** Drops the rows and remembers only who is missing. */
    void markAnswered() {
        answered = true;
        rows.clear();
        exact.clear();
    }

    /** Notes that a partition answered; false if it had already. */
    boolean see(int partition) {
        int word = partition / Long.SIZE;
        if (word >= seen.length) {
            seen = Arrays.copyOf(seen, word + 1);
        }
        long bit = 1L << partition;
        boolean first = (seen[word] & bit) == 0;
        seen[word] |= bit;
        return first;
    }

    /** True once every partition has answered. */
    boolean complete() {
        int answers = 0;
        for (long word : seen) {
            answers += Long.bitCount(word);
        }
        return answers >= expected;
    }

    /**
     * Layout 5: the fields in order, lists with their length first, then a byte of flags, one of
     * which says that partitions beyond the first 128 have answered: then their bits follow, with
     * the number of words first. Layout 4 does not know that rows may have another order than that
     * of distances, nor layout 3 that flag, nor layout 2 what rows carry.
     */
    static final class GatheringSerializer extends RecordSerializer<Gathering> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<Gathering> duplicate() {
            return this;
        }

        @Override
        public Gathering createInstance() {
            return new Gathering(new Ticket(0, 0, 1, 0, 0, false), 1);
        }

        /** Shares the rows, which nobody changes. */
        @Override
        public Gathering copy(Gathering from) {
            Gathering to = new Gathering(from.ticket, from.expected);
            to.seen = from.seen.clone();
            to.rows.addAll(from.rows);
            to.exact.addAll(from.exact);
            to.frontier = from.frontier;
            to.answered = from.answered;
            to.lacking = from.lacking;
            return to;
        }

        @Override
        public void serialize(Gathering gathering, DataOutputView target) throws IOException {
            gathering.ticket.write(target);
            target.writeShort(gathering.expected);
            // There is a time here, which nobody reads.
            target.writeLong(0);
            for (int i = 0; i < WORDS; i++) {
                target.writeLong(gathering.seen[i]);
            }
            write(gathering.rows, target);
            write(gathering.exact, target);
            target.writeBoolean(gathering.frontier != null);
            gathering.frontier().write(target);
            boolean wide = gathering.seen.length > WORDS;
            target.writeByte(
                    (gathering.answered ? ANSWERED : 0)
                            | (gathering.lacking ? LACKING : 0)
                            | (wide ? WIDE : 0));
            if (wide) {
                target.writeByte(gathering.seen.length);
                for (int i = WORDS; i < gathering.seen.length; i++) {
                    target.writeLong(gathering.seen[i]);
                }
            }
        }

        @Override
        public Gathering deserialize(DataInputView source) throws IOException {
            Gathering gathering = new Gathering(Ticket.read(source), source.readUnsignedShort());
            source.readLong();
            for (int i = 0; i < WORDS; i++) {
                gathering.seen[i] = source.readLong();
            }
            read(gathering.rows, source);
            read(gathering.exact, source);
            boolean known = source.readBoolean();
            Frontier frontier = Frontier.read(source);
            gathering.frontier = known ? frontier : null;
            byte flags = source.readByte();
            gathering.answered = (flags & ANSWERED) != 0;
            gathering.lacking = (flags & LACKING) != 0;
            if ((flags & WIDE) != 0) {
                int words = source.readUnsignedByte();
                if (words <= WORDS || words > PARTITIONS_MAX / Long.SIZE) {
                    throw new IOException("A stored query has bits in " + words + " words.");
                }
                gathering.seen = Arrays.copyOf(gathering.seen, words);
                for (int i = WORDS; i < words; i++) {
                    gathering.seen[i] = source.readLong();
                }
            }
            return gathering;
        }

        private static void write(List<Neighbors> lists, DataOutputView target) throws IOException {
            target.writeShort(lists.size());
            for (Neighbors list : lists) {
                list.write(target);
            }
        }

        private static void read(List<Neighbors> lists, DataInputView source) throws IOException {
            int size = source.readUnsignedShort();
            if (size > PARTITIONS_MAX) {
                throw new IOException("A stored query claims " + size + " partial answers.");
            }
            for (int i = 0; i < size; i++) {
                lists.add(Neighbors.read(source));
            }
        }

        @Override
        public TypeSerializerSnapshot<Gathering> snapshotConfiguration() {
            return new Layout();
        }
    }

    /** Layout of the bytes. */
    public static final class Layout extends RecordSerializer.Snapshot<Gathering> {
        /** Called by Flink. */
        public Layout() {
            super(5, 2);
        }

        @Override
        public TypeSerializer<Gathering> restoreSerializer() {
            return new GatheringSerializer();
        }
    }
}
