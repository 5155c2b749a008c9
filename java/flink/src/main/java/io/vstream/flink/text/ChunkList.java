package io.vstream.flink.text;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The chunks that a document has in the index: keyed state. Nobody changes the map.
 *
 * @param newest largest number that a record of the document came with, see {@code Incoming.newer},
 *     in state from before the number had one of its own; else its ANY_ORDER
 * @param chunks by what follows the document's name in theirs, in the order of the text: the
 *     chunk's first character and the one behind its last
 */
record ChunkList(long newest, Map<String, Place> chunks) {

    private static final int CHUNKS_MAX = 1 << 24;

    /** Type of the state. */
    static final RecordType<ChunkList> TYPE =
            RecordType.of(ChunkList.class, ChunkListSerializer::new);

    /**
     * Where a chunk lies in its document.
     *
     * @param start its first character
     * @param end behind its last one
     */
    record Place(int start, int end) {}

    private static final class ChunkListSerializer extends RecordSerializer<ChunkList> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<ChunkList> duplicate() {
            return new ChunkListSerializer();
        }

        @Override
        public ChunkList createInstance() {
            return new ChunkList(0, Map.of());
        }

        @Override
        public ChunkList copy(ChunkList from) {
            return from;
        }

        @Override
        public void serialize(ChunkList list, DataOutputView target) throws IOException {
            target.writeLong(list.newest);
            target.writeInt(list.chunks.size());
            for (Map.Entry<String, Place> chunk : list.chunks.entrySet()) {
                target.writeUTF(chunk.getKey());
                target.writeInt(chunk.getValue().start);
                target.writeInt(chunk.getValue().end);
            }
        }

        @Override
        public ChunkList deserialize(DataInputView source) throws IOException {
            long newest = source.readLong();
            int size = source.readInt();
            if (size < 0 || size > CHUNKS_MAX) {
                throw new IOException("A document claims " + size + " chunks.");
            }
            Map<String, Place> chunks = new LinkedHashMap<>();
            for (int i = 0; i < size; i++) {
                chunks.put(source.readUTF(), new Place(source.readInt(), source.readInt()));
            }
            return new ChunkList(newest, chunks);
        }

        @Override
        public TypeSerializerSnapshot<ChunkList> snapshotConfiguration() {
            return new Layout();
        }
    }

    /** Layout of the bytes. */
    public static final class Layout extends RecordSerializer.Snapshot<ChunkList> {
        /** Called by Flink. */
        public Layout() {
            super(1);
        }

        @Override
        public TypeSerializer<ChunkList> restoreSerializer() {
            return new ChunkListSerializer();
        }
    }
}
