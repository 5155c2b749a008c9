package io.vstream.flink.ingest;

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
 * A checked record on its way to place: an upsert with its vector, an update of what a row carries,
 * a delete, or the offsets of its source.
 */
public final class VectorRecord {

    private static final float[] NONE = new float[0];
    private static final byte UPSERT = 0;
    private static final byte DELETE = 1;
    private static final byte OFFSETS = 2;
    private static final byte UPDATE = 3;
    private static final byte KINDS = 3;
    private static final byte HAS_FIELDS = 4;
    private static final byte HAS_ORDER = 8;

    /** With {@link #DELETE}: the whole group goes. */
    private static final byte DROPS = 16;

    /** The shard of the group follows. */
    private static final byte HAS_SHARD = 32;

    /** Type of a stream of these. */
    public static final RecordType<VectorRecord> TYPE =
            RecordType.of(VectorRecord.class, VectorRecordSerializer::new);

    /** Id of the record, an unsigned number; offsets have one that leads to a place subtask. */
    public long id;

    /** True for a delete, which has no vector. */
    public boolean delete;

    /** True for a delete of all rows of the group. */
    public boolean drop;

    /** Shard of the group, where rows are in groups; else -1. */
    public int shard = -1;

    /** True for an update, which has no vector either. */
    public boolean update;

    /** What the row carries or the update changes; the name alone of a delete by a text. */
    public RowFields fields = RowFields.NONE;

    /** See {@link Incoming#newer}. */
    public long newer = Incoming.ANY_ORDER;

    /** The collection's dimension, all finite; empty for a delete and an update. */
    public float[] vector = NONE;

    /**
     * Null unless this says how far the source was read, see {@link Frontier#offsets}. Shared,
     * never changed.
     */
    public long[] offsets;

    /** Becomes an upsert. */
    public void upsert(long upsertId, float[] upsertVector) {
        set(upsertId, upsertVector, null);
    }

    /** Becomes an update. */
    public void update(long updateId, RowFields change) {
        set(updateId, NONE, null);
        update = true;
        fields = change;
    }

    /** Becomes a delete. */
    public void delete(long deleteId) {
        set(deleteId, NONE, null);
        delete = true;
    }

    /** Becomes the drop of a group, which {@link #fields} name. */
    public void drop() {
        delete(0);
        drop = true;
    }

    /** Becomes offsets of the source. */
    public void offsets(long leadingId, long[] sourceOffsets) {
        set(leadingId, NONE, sourceOffsets);
    }

    private void set(long newId, float[] newVector, long[] newOffsets) {
        id = newId;
        delete = false;
        drop = false;
        shard = -1;
        update = false;
        vector = newVector;
        offsets = newOffsets;
        fields = RowFields.NONE;
        newer = Incoming.ANY_ORDER;
    }

    private static final class VectorRecordSerializer extends RecordSerializer<VectorRecord> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<VectorRecord> duplicate() {
            return new VectorRecordSerializer();
        }

        @Override
        public VectorRecord createInstance() {
            return new VectorRecord();
        }

        @Override
        public VectorRecord copy(VectorRecord from) {
            VectorRecord to = new VectorRecord();
            to.id = from.id;
            to.delete = from.delete;
            to.update = from.update;
            to.drop = from.drop;
            to.shard = from.shard;
            to.vector = from.vector.clone();
            to.offsets = from.offsets;
            to.fields = from.fields;
            to.newer = from.newer;
            return to;
        }

        @Override
        public void serialize(VectorRecord record, DataOutputView target) throws IOException {
            target.writeLong(record.id);
            if (record.offsets != null) {
                target.writeByte(OFFSETS);
                Frontier.write(record.offsets, target);
                return;
            }
            byte kind = record.delete ? DELETE : record.update ? UPDATE : UPSERT;
            boolean fields = !record.fields.isNone();
            boolean ordered = record.newer != Incoming.ANY_ORDER;
            boolean grouped = record.shard >= 0;
            target.writeByte(
                    kind
                            | (fields ? HAS_FIELDS : 0)
                            | (ordered ? HAS_ORDER : 0)
                            | (record.drop ? DROPS : 0)
                            | (grouped ? HAS_SHARD : 0));
            if (kind == UPSERT) {
                floats().write(record.vector, target);
            }
            if (fields) {
                RowFieldsBlock.write(record.fields, target);
            }
            if (ordered) {
                target.writeLong(record.newer);
            }
            if (grouped) {
                SmallNumber.write(record.shard, target);
            }
        }

        @Override
        public VectorRecord deserialize(DataInputView source) throws IOException {
            VectorRecord record = new VectorRecord();
            long id = source.readLong();
            byte head = source.readByte();
            switch (head & KINDS) {
                case OFFSETS -> record.offsets(id, Frontier.readOffsets(source));
                case DELETE -> record.delete(id);
                case UPDATE -> record.update(id, RowFields.NONE);
                default -> record.upsert(id, floats().read(source));
            }
            if ((head & HAS_FIELDS) != 0) {
                record.fields = RowFieldsBlock.read(source);
            }
            if ((head & HAS_ORDER) != 0) {
                record.newer = source.readLong();
            }
            record.drop = (head & DROPS) != 0;
            if ((head & HAS_SHARD) != 0) {
                record.shard = SmallNumber.read(source);
            }
            return record;
        }
    }
}
