package io.vstream.flink.ingest;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** A checked record on its way to place: an upsert with its vector, or a delete. */
public final class VectorRecord {

    private static final float[] NONE = new float[0];

    /** Type of a stream of these. */
    public static final RecordType<VectorRecord> TYPE =
            RecordType.of(VectorRecord.class, VectorRecordSerializer::new);

    /** Id of the record, an unsigned number. */
    public long id;

    /** True for a delete, which has no vector. */
    public boolean delete;

    /** The collection's dimension, all finite; empty for a delete. */
    public float[] vector = NONE;

    /** Becomes an upsert. */
    public void upsert(long upsertId, float[] upsertVector) {
        id = upsertId;
        delete = false;
        vector = upsertVector;
    }

    /** Becomes a delete. */
    public void delete(long deleteId) {
        id = deleteId;
        delete = true;
        vector = NONE;
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
            return to;
        }

        @Override
        public void serialize(VectorRecord record, DataOutputView target) throws IOException {
            target.writeLong(record.id);
            target.writeBoolean(record.delete);
            if (!record.delete) {
                floats().write(record.vector, target);
            }
        }

        @Override
        public VectorRecord deserialize(DataInputView source) throws IOException {
            VectorRecord record = new VectorRecord();
            record.id = source.readLong();
            record.delete = source.readBoolean();
            record.vector = record.delete ? NONE : floats().read(source);
            return record;
        }
    }
}
