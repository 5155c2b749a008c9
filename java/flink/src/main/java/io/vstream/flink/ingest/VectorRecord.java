package io.vstream.flink.ingest;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A checked record on its way to place: an upsert with its vector, a delete, or the offsets of its
 * source.
 */
public final class VectorRecord {

    private static final float[] NONE = new float[0];
    private static final byte UPSERT = 0;
    private static final byte DELETE = 1;
    private static final byte OFFSETS = 2;

    /** Type of a stream of these. */
    public static final RecordType<VectorRecord> TYPE =
            RecordType.of(VectorRecord.class, VectorRecordSerializer::new);

    /** Id of the record, an unsigned number; offsets have one that leads to a place subtask. */
    public long id;

    /** True for a delete, which has no vector. */
    public boolean delete;

    /** The collection's dimension, all finite; empty for a delete. */
    public float[] vector = NONE;

    /**
     * Null unless this says how far the source was read, see {@link Frontier#offsets}. Shared,
     * never changed.
     */
    public long[] offsets;

    /** Becomes an upsert. */
    public void upsert(long upsertId, float[] upsertVector) {
        id = upsertId;
        delete = false;
        vector = upsertVector;
        offsets = null;
    }

    /** Becomes a delete. */
    public void delete(long deleteId) {
        id = deleteId;
        delete = true;
        vector = NONE;
        offsets = null;
    }

    /** Becomes offsets of the source. */
    public void offsets(long leadingId, long[] sourceOffsets) {
        id = leadingId;
        delete = false;
        vector = NONE;
        offsets = sourceOffsets;
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
            to.vector = from.vector.clone();
            to.offsets = from.offsets;
            return to;
        }

        @Override
        public void serialize(VectorRecord record, DataOutputView target) throws IOException {
            target.writeLong(record.id);
            if (record.offsets != null) {
                target.writeByte(OFFSETS);
                Frontier.write(record.offsets, target);
            } else if (record.delete) {
                target.writeByte(DELETE);
            } else {
                target.writeByte(UPSERT);
                floats().write(record.vector, target);
            }
        }

        @Override
        public VectorRecord deserialize(DataInputView source) throws IOException {
            VectorRecord record = new VectorRecord();
            long id = source.readLong();
            switch (source.readByte()) {
                case OFFSETS -> record.offsets(id, Frontier.readOffsets(source));
                case DELETE -> record.delete(id);
                default -> record.upsert(id, floats().read(source));
            }
            return record;
        }
    }
}
