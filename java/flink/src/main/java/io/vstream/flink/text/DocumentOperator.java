package io.vstream.flink.text;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.place.Carried;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.NativeChunk;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Cuts documents into chunks and replaces a document as a whole. Keyed by document.
 *
 * <ul>
 *   <li><b>A chunk's name is that of its document and the hash of its text</b>, so a chunk whose
 *       text is unchanged is the same row: it is updated, and not embedded again.
 *   <li><b>What goes is deleted</b>: keyed state holds the chunks of each document, and none of
 *       their texts. The number that orders its records is kept apart, see {@link #newest}.
 *   <li><b>Order per document.</b> All records of a document pass one subtask here and one of those
 *       that embed, so partitions see its chunks in the order of its records. New chunks come
 *       before old ones go: a query between them sees both, and never none.
 * </ul>
 */
final class DocumentOperator extends AbstractStreamOperator<Incoming>
        implements OneInputStreamOperator<Incoming, Incoming> {

    private static final long serialVersionUID = 1L;

    private final TextSettings settings;
    private final Schema schema;

    private transient ValueState<ChunkList> state;
    private transient KeyedStateStore store;
    private transient ValueState<Long> newest;
    private transient ChunkRecords records;
    private transient Count split;
    private transient Count sent;
    private transient Count kept;
    private transient Count stale;

    /**
     * @param settings of chunks
     * @param schema of the collection
     */
    DocumentOperator(TextSettings settings, Schema schema) {
        this.settings = settings;
        this.schema = schema;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        store = context.getKeyedStateStore();
        state = store.getState(new ValueStateDescriptor<>("chunks", ChunkList.TYPE));
        Meters meters = new Meters(getMetricGroup());
        split = meters.count(Names.DOCUMENTS_SPLIT);
        sent = meters.count(Names.CHUNKS_SENT);
        kept = meters.count(Names.CHUNKS_KEPT);
        stale = meters.count(Names.STALE_DOCUMENTS);
    }

    @Override
    public void open() throws Exception {
        super.open();
        records = new ChunkRecords(schema);
    }

    @Override
    public void processElement(StreamRecord<Incoming> element) throws Exception {
        Incoming document = element.getValue();
        switch (document.kind) {
            case UPSERT, UPDATE, DELETE -> change(document);
            default -> send(document);
        }
        // After everything was sent: the quiet check reads these counts in this order.
        split.inc();
    }

    private void change(Incoming document) throws Exception {
        ChunkList old = state.value();
        if (old == null) {
            old = new ChunkList(Incoming.ANY_ORDER, Map.of());
        }
        if (isStale(document, old)) {
            stale.inc();
            return;
        }
        long number = Math.max(document.newer, old.newest());
        if (number != Incoming.ANY_ORDER) {
            newest().update(number);
        }
        if (document.kind == Incoming.Kind.UPDATE) {
            old.chunks().keySet().forEach(chunk -> send(records.updated(document, chunk)));
            keep(old.chunks());
        } else {
            keep(replace(document, old.chunks()));
        }
    }

    /** True if a record of the document with this number or a larger one was here. */
    private boolean isStale(Incoming document, ChunkList old) throws Exception {
        if (document.newer == Incoming.ANY_ORDER) {
            return false;
        }
        Long last = newest().value();
        return document.newer <= old.newest() || last != null && document.newer <= last;
    }

    /**
     * The largest number of the document's records. It outlives the document, so that an older
     * record does not bring it back, and is forgotten as that of a row is. Registered when it is
     * first needed, so a stream without numbers has no state for them.
     */
    private ValueState<Long> newest() {
        if (newest == null) {
            ValueStateDescriptor<Long> descriptor =
                    new ValueStateDescriptor<>("newest", LongSerializer.INSTANCE);
            descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Carried.ORDER_KEPT).build());
            newest = store.getState(descriptor);
        }
        return newest;
    }

    /** Sends what changes; returns the chunks that there are then. */
    private Map<String, ChunkList.Place> replace(
            Incoming document, Map<String, ChunkList.Place> old) {
        Map<String, ChunkList.Place> chunks = new LinkedHashMap<>();
        String whole = document.kind == Incoming.Kind.UPSERT ? document.text : "";
        byte[] text = whole.getBytes(StandardCharsets.UTF_8);
        for (NativeChunk chunk :
                NativeChunk.split(text, settings.chunkSize(), settings.chunkOverlap())) {
            ChunkList.Place place = new ChunkList.Place(chunk.start(), chunk.end());
            String name = "#" + chunk.hash();
            for (int again = 2; chunks.putIfAbsent(name, place) != null; again++) {
                name = "#" + chunk.hash() + "-" + again;
            }
            String part =
                    new String(
                            text,
                            chunk.firstByte(),
                            chunk.endByte() - chunk.firstByte(),
                            StandardCharsets.UTF_8);
            if (old.containsKey(name)) {
                send(records.moved(document, name, place, part));
                kept.inc();
            } else {
                send(records.upsert(document, name, place, part));
            }
        }
        for (String gone : old.keySet()) {
            if (!chunks.containsKey(gone)) {
                send(records.delete(document, gone));
            }
        }
        return chunks;
    }

    private void keep(Map<String, ChunkList.Place> chunks) throws Exception {
        if (chunks.isEmpty()) {
            state.clear();
        } else {
            state.update(new ChunkList(Incoming.ANY_ORDER, chunks));
        }
    }

    private void send(Incoming record) {
        output.collect(new StreamRecord<>(record));
        sent.inc();
    }
}
