package io.vstream.flink.state;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Base of every serializer of the job: what Flink asks for and what is the same for all of them.
 *
 * <p>A subclass owns a scratch buffer for bulk copies of floats, so {@link #duplicate} must return
 * a new instance: Flink hands one to each thread.
 *
 * @param <T> type of the record
 */
public abstract class RecordSerializer<T> extends TypeSerializer<T> {

    private static final long serialVersionUID = 1L;

    private transient FloatBlock floats;

    /** The scratch buffer for bulk copies. */
    protected final FloatBlock floats() {
        if (floats == null) {
            floats = new FloatBlock();
        }
        return floats;
    }

    @Override
    public boolean isImmutableType() {
        return false;
    }

    @Override
    public T copy(T from, T reuse) {
        return copy(from);
    }

    @Override
    public int getLength() {
        return -1;
    }

    /** Always a new object: channels of one task may hold several records at a time. */
    @Override
    public T deserialize(T reuse, DataInputView source) throws IOException {
        return deserialize(source);
    }

    @Override
    public void copy(DataInputView source, DataOutputView target) throws IOException {
        serialize(deserialize(source), target);
    }

    /** Records that only travel keep this; a serializer of state says its layout. */
    @Override
    public TypeSerializerSnapshot<T> snapshotConfiguration() {
        throw new UnsupportedOperationException(getClass().getName() + " is not for state.");
    }

    @Override
    public boolean equals(Object other) {
        return other != null && other.getClass() == getClass();
    }

    @Override
    public int hashCode() {
        return getClass().hashCode();
    }

    /**
     * Written beside the state in every checkpoint, so that a later build knows the layout of the
     * bytes that it reads.
     *
     * @param <T> type of the record
     */
    public abstract static class Snapshot<T> implements TypeSerializerSnapshot<T> {

        private final int version;
        private final int oldest;

        /**
         * @param version of the layout that the serializer reads and writes; raise it with the
         *     layout
         */
        protected Snapshot(int version) {
            this(version, version);
        }

        /**
         * @param version of the layout that the serializer writes
         * @param oldest whose bytes the serializer reads as they are
         */
        protected Snapshot(int version, int oldest) {
            this.version = version;
            this.oldest = oldest;
        }

        @Override
        public final int getCurrentVersion() {
            return version;
        }

        @Override
        public final void writeSnapshot(DataOutputView out) {
            // The layout's version, which Flink writes itself, says everything.
        }

        @Override
        public final void readSnapshot(int written, DataInputView in, ClassLoader loader)
                throws IOException {
            if (written < oldest || written > version) {
                throw new IOException(
                        "The state was written in layout "
                                + written
                                + " of "
                                + getClass().getName()
                                + " and this build reads layout "
                                + (oldest == version ? "" : oldest + " to ")
                                + version
                                + ". Restore it with the VStream release that wrote it.");
            }
        }

        @Override
        public final TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(
                TypeSerializerSnapshot<T> old) {
            return old.getClass() == getClass()
                    ? TypeSerializerSchemaCompatibility.compatibleAsIs()
                    : TypeSerializerSchemaCompatibility.incompatible();
        }
    }
}
