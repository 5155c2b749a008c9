package io.vstream.flink.text;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.NativeChunk;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
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
 *       their texts.
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
        state =
                context.getKeyedStateStore()
                        .getState(new ValueStateDescriptor<>("chunks", ChunkList.TYPE));
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
        boolean ordered = document.newer != Incoming.ANY_ORDER;
        if (ordered && document.newer <= old.newest()) {
            stale.inc();
            return;
        }
        long newest = Math.max(document.newer, old.newest());
        if (document.kind == Incoming.Kind.UPDATE) {
            old.chunks().keySet().forEach(chunk -> send(records.updated(document, chunk)));
            keep(newest, old.chunks());
        } else {
            keep(newest, replace(document, old.chunks()));
        }
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

    private void keep(long newest, Map<String, ChunkList.Place> chunks) throws Exception {
        if (chunks.isEmpty() && newest == Incoming.ANY_ORDER) {
            state.clear();
        } else {
            state.update(new ChunkList(newest, chunks));
        }
    }

    private void send(Incoming record) {
        output.collect(new StreamRecord<>(record));
        sent.inc();
    }
}
