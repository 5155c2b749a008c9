package io.vstream.flink.text;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Latency;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.nativecore.NativeEmbedder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;

/**
 * Embeds the texts of records, in batches, and keeps the order of its input. Its input comes over a
 * network, so that records may be kept as they are.
 *
 * <p>A batch ends when it is full, after a short wait, and before a watermark, a barrier or the end
 * of the stream: so a checkpoint holds no text, and no time overtakes a record.
 */
final class EmbedOperator extends AbstractStreamOperator<Incoming>
        implements OneInputStreamOperator<Incoming, Incoming>, BoundedOneInput {

    private static final long serialVersionUID = 1L;

    private static final long NANOS_PER_MICRO = 1_000;

    private final TextSettings settings;
    private final int dimension;
    private final long waitMillis;
    private final String counter;

    private transient NativeEmbedder embedder;
    private transient List<Incoming> waiting;
    private transient List<byte[]> texts;
    private transient StreamRecord<Incoming> record;
    private transient boolean timed;
    private transient Count embedded;
    private transient Count batches;
    private transient Count sent;
    private transient Latency times;

    /**
     * @param settings of the model
     * @param dimension of the collection
     * @param waitMillis how long the first text of a batch waits for others
     * @param counter name of the count of the records
     */
    EmbedOperator(TextSettings settings, int dimension, long waitMillis, String counter) {
        this.settings = settings;
        this.dimension = dimension;
        this.waitMillis = waitMillis;
        this.counter = counter;
    }

    @Override
    public void open() throws Exception {
        super.open();
        embedder =
                NativeEmbedder.open(
                        settings.model(),
                        settings.runtime(),
                        settings.tokensMax(),
                        settings.threads());
        TextDataflow.refuseDimension(embedder.dimension(), dimension);
        waiting = new ArrayList<>();
        texts = new ArrayList<>(settings.batch());
        record = new StreamRecord<>(null);
        Meters meters = new Meters(getMetricGroup());
        embedded = meters.count(Names.TEXTS_EMBEDDED);
        batches = meters.count(Names.EMBED_BATCHES);
        sent = meters.count(counter);
        times = meters.latency(Names.EMBED_LATENCY);
    }

    @Override
    public void processElement(StreamRecord<Incoming> element) {
        Incoming one = element.getValue();
        if (one.text == null && waiting.isEmpty()) {
            send(one);
            return;
        }
        waiting.add(one);
        if (one.text != null) {
            texts.add(one.text.getBytes(StandardCharsets.UTF_8));
        }
        if (texts.size() >= settings.batch()) {
            flush();
        } else if (!timed) {
            timed = true;
            long now = getProcessingTimeService().getCurrentProcessingTime();
            getProcessingTimeService().registerTimer(now + waitMillis, time -> flushLate());
        }
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        flush();
        super.processWatermark(mark);
    }

    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        flush();
        super.processWatermarkStatus(status);
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) {
        flush();
    }

    @Override
    public void endInput() {
        flush();
    }

    @Override
    public void close() throws Exception {
        if (embedder != null) {
            embedder.close();
        }
        super.close();
    }

    private void flushLate() {
        timed = false;
        flush();
    }

    private void flush() {
        if (waiting.isEmpty()) {
            return;
        }
        long began = System.nanoTime();
        float[][] vectors = embedder.embed(texts);
        times.update((System.nanoTime() - began) / NANOS_PER_MICRO);
        embedded.inc(vectors.length);
        batches.inc();
        int next = 0;
        for (Incoming one : waiting) {
            if (one.text != null) {
                one.vector = vectors[next++];
                one.text = null;
            }
            send(one);
        }
        waiting.clear();
        texts.clear();
    }

    private void send(Incoming one) {
        output.collect(record.replace(one));
        sent.inc();
    }
}
