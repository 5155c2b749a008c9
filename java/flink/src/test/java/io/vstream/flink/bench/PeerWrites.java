package io.vstream.flink.bench;

import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.merge.Answer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;

/**
 * Writes to a peer: what waits goes out in one call, so that an id's writes keep their order. Emits
 * nothing.
 */
final class PeerWrites extends RichAsyncFunction<VectorRecord, Answer> {

    private static final long serialVersionUID = 1L;

    /** Rows of a call while the first rows are written. */
    static final int PRELOAD_BATCH = 500;

    /** Writes that the peer has made, in this process. */
    static final AtomicLong APPLIED = new AtomicLong();

    private final PeerAddress peer;
    private final int batch;
    private final int preload;

    private transient PeerClient client;
    private transient LinkedBlockingQueue<Waiting> queue;
    private transient Thread thread;

    private record Waiting(VectorRecord write, ResultFuture<Answer> done) {}

    PeerWrites(PeerAddress peer, int batch, int preload) {
        this.peer = peer;
        this.batch = batch;
        this.preload = preload;
    }

    @Override
    public void open(OpenContext context) throws Exception {
        client = peer.connect();
        queue = new LinkedBlockingQueue<>();
        thread = new Thread(this::write, "writes");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void asyncInvoke(VectorRecord write, ResultFuture<Answer> done) {
        queue.add(new Waiting(write, done));
    }

    @Override
    public void timeout(VectorRecord write, ResultFuture<Answer> done) {
        // A slow peer is a backlog, not a failure.
    }

    @Override
    public void close() throws Exception {
        if (thread != null) {
            thread.interrupt();
            client.close();
        }
    }

    private void write() {
        List<Waiting> taken = new ArrayList<>();
        try {
            while (true) {
                taken.clear();
                taken.add(queue.take());
                int most = APPLIED.get() < preload ? PRELOAD_BATCH : batch;
                queue.drainTo(taken, most - 1);
                call(taken);
                long applied = APPLIED.addAndGet(taken.size());
                if (applied >= preload && applied - taken.size() < preload) {
                    client.firstRowsWritten();
                }
                taken.forEach(waiting -> waiting.done.complete(List.of()));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (Exception e) {
            taken.forEach(waiting -> waiting.done.completeExceptionally(e));
        }
    }

    /** Of several writes to an id the last one counts. */
    private void call(List<Waiting> taken) throws Exception {
        Map<Long, VectorRecord> last = new LinkedHashMap<>();
        taken.forEach(waiting -> last.put(waiting.write.id, waiting.write));
        List<VectorRecord> upserts = last.values().stream().filter(one -> !one.delete).toList();
        long[] deletes =
                last.values().stream().filter(one -> one.delete).mapToLong(one -> one.id).toArray();
        if (!upserts.isEmpty()) {
            client.upsert(
                    upserts.stream().mapToLong(one -> one.id).toArray(),
                    upserts.stream().map(one -> one.vector).toArray(float[][]::new));
        }
        if (deletes.length > 0) {
            client.delete(deletes);
        }
    }
}
