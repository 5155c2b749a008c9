package io.vstream.flink.place;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** One change on its way to one partition. Place reuses one object. */
public final class Write {

    private static final float[] NONE = new float[0];

    /** Type of a stream of these. */
    public static final RecordType<Write> TYPE = RecordType.of(Write.class, WriteSerializer::new);

    /** Id of the record, an unsigned number. */
    public long id;

    /** Larger is newer; never repeats for an id. */
    public long version;

    /** Position of the record on the line. */
    public long code;

    /** Shard that holds the record, 0 to 127. */
    public int shard;

    /** True for a delete, which has no vector. */
    public boolean delete;

    /** The collection's dimension; empty for a delete. */
    public float[] vector = NONE;

    /** Becomes an upsert. */
    void upsert(long upsertId, long newVersion, long newCode, int newShard, float[] newVector) {
        set(upsertId, newVersion, newCode, newShard);
        delete = false;
        vector = newVector;
    }

    /** Becomes a delete. */
    void delete(long deleteId, long newVersion, long oldCode, int oldShard) {
        set(deleteId, newVersion, oldCode, oldShard);
        delete = true;
        vector = NONE;
    }

    private void set(long newId, long newVersion, long newCode, int newShard) {
        id = newId;
        version = newVersion;
        code = newCode;
        shard = newShard;
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
            to.vector = from.vector.clone();
            return to;
        }

        @Override
        public void serialize(Write write, DataOutputView target) throws IOException {
            target.writeLong(write.id);
            target.writeLong(write.version);
            target.writeLong(write.code);
            target.writeByte(write.shard);
            target.writeBoolean(write.delete);
            if (!write.delete) {
                floats().write(write.vector, target);
            }
        }

        @Override
        public Write deserialize(DataInputView source) throws IOException {
            Write write = new Write();
            write.set(
                    source.readLong(),
                    source.readLong(),
                    source.readLong(),
                    source.readUnsignedByte());
            write.delete = source.readBoolean();
            write.vector = write.delete ? NONE : floats().read(source);
            return write;
        }
    }
}
