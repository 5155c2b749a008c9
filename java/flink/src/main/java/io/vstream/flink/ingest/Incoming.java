package io.vstream.flink.ingest;

import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.nativecore.RowFields;
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
        OFFSETS,
        /** {@link #id} and {@link #fields}, which change what the row carries. */
        UPDATE,
        /** {@link #group} alone, which goes with all its rows. */
        DROP_GROUP
    }

    /** {@link #newer} of a record that is applied whatever came before. */
    public static final long ANY_ORDER = Long.MIN_VALUE;

    private static final String[] NO_NAMES = new String[0];
    private static final int HAS_FIELDS = 1;
    private static final int HAS_ORDER = 2;
    private static final int ASKS = 4;
    private static final int HAS_PROBLEM = 8;
    private static final int HAS_GROUP = 16;
    private static final int HAS_RANK = 32;
    private static final int HAS_TEXT = 64;

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

    /** What the row carries or an update changes; the name alone of a delete by a text. */
    public RowFields fields = RowFields.NONE;

    /** The record is applied only if no record of its id had this number or a larger one. */
    public long newer = ANY_ORDER;

    /** The filter of a query as text, or null. */
    public String filter;

    /** What the rows of the answer are to carry: names of attributes, {@code payload}. */
    public String[] with = NO_NAMES;

    /** Largest distance of a row of the answer, or NaN for any. */
    public float radius = Float.NaN;

    /** The group of the row, or that is asked; empty for none. */
    public String group = "";

    /** Of a query to a group, see {@link AnswerOrder}; empty for the nearest rows. */
    public String order = "";

    /** What is wrong with an {@link Kind#UNREADABLE} record, in words; empty if nobody said. */
    public String problem = "";

    /** Text of a document, of a chunk or of a query that is still to be embedded, or null. */
    public String text;

    /**
     * Number that stands for the document of a chunk, for whoever chooses the way of the record: it
     * does not travel.
     */
    public long document;

    /** Forgets what not every record has. */
    public void clearExtras() {
        fields = RowFields.NONE;
        newer = ANY_ORDER;
        filter = null;
        with = NO_NAMES;
        radius = Float.NaN;
        group = "";
        order = "";
        problem = "";
        text = null;
        document = 0;
    }

    private int extras() {
        boolean asks = filter != null || with.length > 0 || !Float.isNaN(radius);
        return (fields.isNone() ? 0 : HAS_FIELDS)
                | (newer == ANY_ORDER ? 0 : HAS_ORDER)
                | (asks ? ASKS : 0)
                | (problem.isEmpty() ? 0 : HAS_PROBLEM)
                | (group.isEmpty() ? 0 : HAS_GROUP)
                | (order.isEmpty() ? 0 : HAS_RANK)
                | (text == null ? 0 : HAS_TEXT);
    }

    private void writeExtras(DataOutputView target) throws IOException {
        int extras = extras();
        target.writeByte(extras);
        if ((extras & HAS_FIELDS) != 0) {
            RowFieldsBlock.write(fields, target);
        }
        if ((extras & HAS_ORDER) != 0) {
            target.writeLong(newer);
        }
        if ((extras & ASKS) != 0) {
            write(filter == null ? "" : filter, target);
            target.writeShort(with.length);
            for (String name : with) {
                write(name, target);
            }
            target.writeFloat(radius);
        }
        if ((extras & HAS_PROBLEM) != 0) {
            write(problem, target);
        }
        if ((extras & HAS_GROUP) != 0) {
            write(group, target);
        }
        if ((extras & HAS_RANK) != 0) {
            write(order, target);
        }
        if ((extras & HAS_TEXT) != 0) {
            write(text, target);
        }
    }

    private void readExtras(DataInputView source) throws IOException {
        int extras = source.readByte();
        if ((extras & HAS_FIELDS) != 0) {
            fields = RowFieldsBlock.read(source);
        }
        if ((extras & HAS_ORDER) != 0) {
            newer = source.readLong();
        }
        if ((extras & ASKS) != 0) {
            String text = read(source);
            filter = text.isEmpty() ? null : text;
            with = new String[source.readUnsignedShort()];
            for (int i = 0; i < with.length; i++) {
                with[i] = read(source);
            }
            radius = source.readFloat();
        }
        if ((extras & HAS_PROBLEM) != 0) {
            problem = read(source);
        }
        if ((extras & HAS_GROUP) != 0) {
            group = read(source);
        }
        if ((extras & HAS_RANK) != 0) {
            order = read(source);
        }
        if ((extras & HAS_TEXT) != 0) {
            text = read(source);
        }
    }

    /** Not writeUTF, which stops at 64 KiB: a line with 4,096 numbers is longer. */
    private static void write(String text, DataOutputView target) throws IOException {
        target.writeInt(text.length());
        target.writeChars(text);
    }

    private static String read(DataInputView source) throws IOException {
        char[] text = new char[source.readInt()];
        for (int i = 0; i < text.length; i++) {
            text[i] = source.readChar();
        }
        return new String(text);
    }

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
            to.fields = from.fields;
            to.newer = from.newer;
            to.filter = from.filter;
            to.with = from.with;
            to.radius = from.radius;
            to.problem = from.problem;
            to.group = from.group;
            to.order = from.order;
            to.text = from.text;
            to.document = from.document;
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
            Incoming.write(record.line, target);
            target.writeByte(record.reason == null ? NO_REASON : record.reason.ordinal());
            target.writeInt(record.partition);
            target.writeLong(record.offset);
            Frontier.write(record.offsets, target);
            record.writeExtras(target);
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
            record.line = Incoming.read(source);
            int refused = source.readByte();
            record.reason = refused == NO_REASON ? null : REASONS[refused];
            record.partition = source.readInt();
            record.offset = source.readLong();
            record.offsets = Frontier.readOffsets(source);
            record.readExtras(source);
            return record;
        }
    }
}
