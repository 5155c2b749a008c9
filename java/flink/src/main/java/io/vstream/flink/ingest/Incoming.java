package io.vstream.flink.ingest;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A record on its way from a source to decode: made by a generator, or a line that nobody has read
 * yet. Sources reuse one object, so whoever keeps a field copies it.
 */
public final class Incoming {

    /** Kinds of records. */
    public enum Kind {
        /** {@link #id} and {@link #vector}. */
        UPSERT,
        /** {@link #id} alone. */
        DELETE,
        /** {@link #id} is the user's query id; {@link #vector}, {@link #k}, {@link #effort}. */
        QUERY,
        /** {@link #line} is a JSON object with a vector record. */
        VECTOR_LINE,
        /** {@link #line} is a JSON object with a query. */
        QUERY_LINE,
        /** {@link #line} is the beginning of a line that is longer than any record. */
        LONG_LINE,
        /** {@link #line} describes a record that its source could not read, for {@link #reason}. */
        UNREADABLE,
        /** {@link #offsets} of the source; {@link #id} leads to one place subtask. */
        OFFSETS
    }

    private static final Kind[] KINDS = Kind.values();
    private static final BadRecord.Reason[] REASONS = BadRecord.Reason.values();
    private static final int NO_REASON = -1;
    private static final long[] NO_OFFSETS = new long[0];

    /** Type of a stream of these. */
    public static final RecordType<Incoming> TYPE =
            RecordType.of(Incoming.class, IncomingSerializer::new);

    /** Kind of the record; the other fields depend on it. */
    public Kind kind = Kind.UPSERT;

    /** Id of the record or of the query, an unsigned number. */
    public long id;

    /** The vector, of any length: decode checks it. */
    public float[] vector = new float[0];

    /** Neighbours asked for. */
    public int k;

    /** How hard to look: 0 automatic, -1 exact, or a number of leaves. */
    public int effort;

    /** When the record should have been sent, nanoseconds since 1970: latency counts from here. */
    public long intendedNanos;

    /** True if the record belongs to the phase that is measured. */
    public boolean measured;

    /** The unread line, without its end. */
    public String line = "";

    /** Why the source could not read the record, or null. */
    public BadRecord.Reason reason;

    /** Partition of the source that the record comes from; 0 where sources have none. */
    public int partition;

    /** Position in the partition; -1 where sources have none. */
    public long offset = -1;

    /** Offsets of the source, see {@link Frontier#offsets}; shared, never changed. */
    public long[] offsets = NO_OFFSETS;

    private static final class IncomingSerializer extends RecordSerializer<Incoming> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<Incoming> duplicate() {
            return new IncomingSerializer();
        }

        @Override
        public Incoming createInstance() {
            return new Incoming();
        }

        @Override
        public Incoming copy(Incoming from) {
            Incoming to = new Incoming();
            to.kind = from.kind;
            to.id = from.id;
            to.vector = from.vector.clone();
            to.k = from.k;
            to.effort = from.effort;
            to.intendedNanos = from.intendedNanos;
            to.measured = from.measured;
            to.line = from.line;
            to.reason = from.reason;
            to.partition = from.partition;
            to.offset = from.offset;
            to.offsets = from.offsets;
            return to;
        }

        @Override
        public void serialize(Incoming record, DataOutputView target) throws IOException {
            target.writeByte(record.kind.ordinal());
            target.writeLong(record.id);
            floats().write(record.vector, target);
            target.writeInt(record.k);
            target.writeInt(record.effort);
            target.writeLong(record.intendedNanos);
            target.writeBoolean(record.measured);
            // Not writeUTF, which stops at 64 KiB: a line with 4,096 numbers is longer.
            target.writeInt(record.line.length());
            target.writeChars(record.line);
            target.writeByte(record.reason == null ? NO_REASON : record.reason.ordinal());
            target.writeInt(record.partition);
            target.writeLong(record.offset);
            Frontier.write(record.offsets, target);
        }

        @Override
        public Incoming deserialize(DataInputView source) throws IOException {
            Incoming record = new Incoming();
            record.kind = KINDS[source.readByte()];
            record.id = source.readLong();
            record.vector = floats().read(source);
            record.k = source.readInt();
            record.effort = source.readInt();
            record.intendedNanos = source.readLong();
            record.measured = source.readBoolean();
            char[] line = new char[source.readInt()];
            for (int i = 0; i < line.length; i++) {
                line[i] = source.readChar();
            }
            record.line = new String(line);
            int refused = source.readByte();
            record.reason = refused == NO_REASON ? null : REASONS[refused];
            record.partition = source.readInt();
            record.offset = source.readLong();
            record.offsets = Frontier.readOffsets(source);
            return record;
        }
    }
}
