package io.vstream.flink.search;

import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.QueryBatch;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Native buffers of the searches that run at once, kept for later ones. For any thread. */
final class BufferPool {

    /** An audit asks twice on the same rows: once as usual and once exactly. */
    private static final int QUERIES_MAX = 2;

    private final int dimension;
    private final Queue<Buffers> idle = new ConcurrentLinkedQueue<>();

    /**
     * @param dimension elements of every query
     */
    BufferPool(int dimension) {
        this.dimension = dimension;
    }

    /** Buffers of one search. */
    record Buffers(QueryBatch queries, AnswerBatch answers) {}

    /** Takes buffers out of the pool, or makes them. */
    Buffers take() {
        Buffers buffers = idle.poll();
        return buffers != null
                ? buffers
                : new Buffers(new QueryBatch(dimension, QUERIES_MAX), new AnswerBatch());
    }

    /** Puts buffers back. */
    void release(Buffers buffers) {
        idle.add(buffers);
    }
}
