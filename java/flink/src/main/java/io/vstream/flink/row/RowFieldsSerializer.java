package io.vstream.flink.row;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** What a row carries, as state. Layout 1: see {@link RowFieldsBlock}. */
public final class RowFieldsSerializer extends RecordSerializer<RowFields> {

    private static final long serialVersionUID = 1L;

    @Override
    public boolean isImmutableType() {
        return true;
    }

    @Override
    public TypeSerializer<RowFields> duplicate() {
        return this;
    }

    @Override
    public RowFields createInstance() {
        return RowFields.NONE;
    }

    @Override
    public RowFields copy(RowFields from) {
        return from;
    }

    @Override
    public void serialize(RowFields fields, DataOutputView target) throws IOException {
        RowFieldsBlock.write(fields, target);
    }

    @Override
    public RowFields deserialize(DataInputView source) throws IOException {
        return RowFieldsBlock.read(source);
    }

    @Override
    public TypeSerializerSnapshot<RowFields> snapshotConfiguration() {
        return new Layout();
    }

    /** Layout of the bytes. */
    public static final class Layout extends Snapshot<RowFields> {
        /** Called by Flink. */
        public Layout() {
            super(1);
        }

        @Override
        public TypeSerializer<RowFields> restoreSerializer() {
            return new RowFieldsSerializer();
        }
    }
}
