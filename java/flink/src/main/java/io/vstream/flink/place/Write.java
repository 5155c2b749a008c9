package io.vstream.flink.place;

import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.row.RowFieldsBlock;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.flink.state.SmallNumber;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One change, offsets of the source or an acknowledgement, on its way to one partition. Place
 * reuses one object.
 */
public final class Write {

    private static final float[] NONE = new float[0];
    private static final byte UPSERT = 0;
    private static final byte DELETE = 1;
    private static final byte OFFSETS = 2;
    private static final byte ACK = 3;
    private static final byte UPDATE = 4;
    private static final byte KINDS = 7;
    private static final byte HAS_FIELDS = 8;

    /** With {@link #DELETE}: the whole group goes. */
    private static final byte DROPS = 16;

    /** With a group: the row may be elsewhere, and then nothing is to be done or counted. */
    private static final long MAY_BE_ELSEWHERE = 1;

    /** Type of a stream of these. */
    public static final RecordType<Write> TYPE = RecordType.of(Write.class, WriteSerializer::new);

    /** Id of the record, an unsigned number; otherwise the place subtask that sends this. */
    public long id;

    /** Larger is newer; never repeats for an id. */
    public long version;

    /** Position of the record on the line; with a group, 1 if its row may be elsewhere, else 0. */
    public long code;

    /** Shard that holds the record. */
    public int shard;

    /** True for a delete, which has no vector. */
    public boolean delete;

    /** True for a delete of all rows of the group that {@link #fields} name. */
    public boolean drop;

    /** True for an update, which has no vector either. */
    public boolean update;

    /** What the row carries or the update changes; the name alone of a delete by a text. */
    public RowFields fields = RowFields.NONE;

    /** The collection's dimension; empty for a delete and an update. */
    public float[] vector = NONE;

    /**
     * Null unless this carries offsets: all writes of the source's records up to here, as far as
     * they pass the place subtask {@link #id}, are before it. Shared, never changed.
     */
    public long[] offsets;

    /** Null unless the place task acknowledges a command with this. Never changed. */
    public CommandAck ack;

    /** Becomes an upsert. */
    void upsert(
            long upsertId,
            long newVersion,
            long newCode,
            int newShard,
            float[] newVector,
            RowFields newFields) {
        set(upsertId, newVersion, newCode, newShard);
        vector = newVector;
        fields = newFields;
    }

    /** Becomes an update. */
    void update(long updateId, long newVersion, long rowCode, int rowShard, RowFields change) {
        set(updateId, newVersion, rowCode, rowShard);
        update = true;
        fields = change;
    }

    /** Becomes a delete. */
    void delete(long deleteId, long newVersion, long oldCode, int oldShard) {
        set(deleteId, newVersion, oldCode, oldShard);
        delete = true;
    }

    /** Becomes the write of a record in a group. */
    void grouped(VectorRecord record, long newVersion) {
        set(record.id, newVersion, 0, record.shard);
        delete = record.delete;
        drop = record.drop;
        update = record.update;
        vector = record.vector;
        fields = record.fields;
    }

    /**
     * Becomes the write of a record in a slice of its group. The row of an update may be where rows
     * of the group were before, see {@link #followsTo}: a slice that lacks it is no news.
     */
    void inSlice(VectorRecord record, long newVersion, String slice, int sliceShard) {
        grouped(record, newVersion);
        code = record.update ? MAY_BE_ELSEWHERE : 0;
        shard = sliceShard;
        fields = record.fields.in(slice);
    }

    /**
     * Becomes what a write to a slice is to the place where rows of the group were before: an
     * update of the row if it is there, or its delete.
     */
    void followsTo(VectorRecord record, long newVersion) {
        set(record.id, newVersion, MAY_BE_ELSEWHERE, record.shard);
        update = record.update;
        delete = !update;
        RowFields old = record.fields;
        fields = update ? old : RowFields.named(old.name(), old.check()).in(old.group());
    }

    /** Becomes offsets of the source. */
    void offsets(int place, long[] sourceOffsets, int toShard) {
        set(place, 0, 0, toShard);
        offsets = sourceOffsets;
    }

    /** Becomes the acknowledgement of a command. */
    void acknowledge(CommandAck newAck, int toShard) {
        set(newAck.task(), 0, 0, toShard);
        ack = newAck;
    }

    private void set(long newId, long newVersion, long newCode, int newShard) {
        id = newId;
        version = newVersion;
        code = newCode;
        shard = newShard;
        delete = false;
        drop = false;
        update = false;
        vector = NONE;
        fields = RowFields.NONE;
        offsets = null;
        ack = null;
    }

    private static final class WriteSerializer extends RecordSerializer<Write> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<Write> duplicate() {
            return new WriteSerializer();
        }

        @Override
        public Write createInstance() {
            return new Write();
        }

        @Override
        public Write copy(Write from) {
            Write to = new Write();
            to.set(from.id, from.version, from.code, from.shard);
            to.delete = from.delete;
            to.drop = from.drop;
            to.update = from.update;
            to.fields = from.fields;
            to.vector = from.vector.clone();
            to.offsets = from.offsets;
            to.ack = from.ack;
            return to;
        }

        @Override
        public void serialize(Write write, DataOutputView target) throws IOException {
            target.writeLong(write.id);
            target.writeLong(write.version);
            target.writeLong(write.code);
            SmallNumber.write(write.shard, target);
            if (write.offsets != null) {
                target.writeByte(OFFSETS);
                Frontier.write(write.offsets, target);
            } else if (write.ack != null) {
                target.writeByte(ACK);
                write.ack.write(target);
            } else {
                byte kind = write.delete ? DELETE : write.update ? UPDATE : UPSERT;
                boolean fields = !write.fields.isNone();
                target.writeByte(kind | (fields ? HAS_FIELDS : 0) | (write.drop ? DROPS : 0));
                if (kind == UPSERT) {
                    floats().write(write.vector, target);
                }
                if (fields) {
                    RowFieldsBlock.write(write.fields, target);
                }
            }
        }

        @Override
        public Write deserialize(DataInputView source) throws IOException {
            Write write = new Write();
            write.set(
                    source.readLong(),
                    source.readLong(),
                    source.readLong(),
                    SmallNumber.read(source));
            byte head = source.readByte();
            switch (head & KINDS) {
                case OFFSETS -> write.offsets = Frontier.readOffsets(source);
                case DELETE -> write.delete = true;
                case UPDATE -> write.update = true;
                case ACK -> write.ack = CommandAck.read(source);
                default -> write.vector = floats().read(source);
            }
            write.drop = (head & DROPS) != 0;
            if ((head & HAS_FIELDS) != 0) {
                write.fields = RowFieldsBlock.read(source);
            }
            return write;
        }
    }
}
