package io.vstream.flink.state;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Bare vectors: the training sample and the rows that wait for a template. */
public final class VectorSerializer extends RecordSerializer<float[]> {

    private static final long serialVersionUID = 1L;

    /** Type of a stream or state of vectors. */
    public static final RecordType<float[]> TYPE =
            RecordType.of(float[].class, VectorSerializer::new);

    @Override
    public TypeSerializer<float[]> duplicate() {
        return new VectorSerializer();
    }

    @Override
    public float[] createInstance() {
        return new float[0];
    }

    @Override
    public float[] copy(float[] from) {
        return from.clone();
    }

    @Override
    public void serialize(float[] vector, DataOutputView target) throws IOException {
        floats().write(vector, target);
    }

    @Override
    public float[] deserialize(DataInputView source) throws IOException {
        return floats().read(source);
    }

    @Override
    public TypeSerializerSnapshot<float[]> snapshotConfiguration() {
        return new Layout();
    }

    /** Layout of the bytes. */
    public static final class Layout extends Snapshot<float[]> {
        /** Called by Flink. */
        public Layout() {
            super(1);
        }

        @Override
        public TypeSerializer<float[]> restoreSerializer() {
            return new VectorSerializer();
        }
    }
}
