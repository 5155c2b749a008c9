package io.vstream.flink.bench;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.merge.Answer;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;

/**
 * Asks a peer, several queries at once. The only offset of an answer is the number of writes that
 * the peer had made when it was asked.
 */
final class PeerQueries extends RichAsyncFunction<QueryRecord, Answer> {

    private static final long serialVersionUID = 1L;

    /** Queries of a subtask that are under way. */
    private static final int AT_ONCE = 4;

    private final PeerAddress peer;

    private transient PeerClient client;
    private transient ExecutorService threads;

    PeerQueries(PeerAddress peer) {
        this.peer = peer;
    }

    @Override
    public void open(OpenContext context) throws Exception {
        client = peer.connect();
        threads = Executors.newFixedThreadPool(AT_ONCE, work -> new Thread(work, "ask"));
    }

    @Override
    public void asyncInvoke(QueryRecord query, ResultFuture<Answer> done) {
        threads.execute(
                () -> {
                    try {
                        long[] writes = {PeerWrites.APPLIED.get()};
                        long[] ids = client.query(query.vector(), query.ticket().k());
                        done.complete(
                                List.of(
                                        new Answer(
                                                query.ticket(),
                                                ids,
                                                new float[ids.length],
                                                1,
                                                false,
                                                new Frontier(Frontier.NO_TIME, writes))));
                    } catch (Exception e) {
                        done.completeExceptionally(e);
                    }
                });
    }

    @Override
    public void timeout(QueryRecord query, ResultFuture<Answer> done) {
        // A slow peer is a backlog, not a failure.
    }

    @Override
    public void close() throws Exception {
        if (threads != null) {
            threads.shutdownNow();
            client.close();
        }
    }
}
