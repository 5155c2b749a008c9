package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.route.QueryCopy;
import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.NativeMoment;
import io.vstream.nativecore.QueryBatch;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** One query, asked of the rows of one moment, or of those of now. */
final class Question implements Searches.Search<Question.Found> {

    private final Desk desk;
    private final QueryCopy copy;
    private final Frontier frontier;
    private final NativeMoment moment;
    private final long asked = System.nanoTime();

    /**
     * @param frontier how much of the vector stream is behind the rows
     * @param moment is closed with this; null to ask the engine as it is when this runs
     */
    Question(Desk desk, QueryCopy copy, Frontier frontier, NativeMoment moment) {
        this.desk = desk;
        this.copy = copy;
        this.frontier = frontier;
        this.moment = moment;
    }

    /**
     * What came of it.
     *
     * @param answer for merge
     * @param bucket of the query's own code
     * @param leaves that the search read; 0 for an audit
     * @param searchNanos it took
     * @param queueNanos it waited for a thread
     */
    record Found(PartialAnswer answer, int bucket, int leaves, long searchNanos, long queueNanos) {}

    /** Buffers of those who search at once, kept for the next ones. */
    static final class Desk {

        private final NativeEngine engine;
        private final int dimension;
        private final int partition;
        private final Queue<Buffers> idle = new ConcurrentLinkedQueue<>();

        Desk(NativeEngine engine, int dimension, int partition) {
            this.engine = engine;
            this.dimension = dimension;
            this.partition = partition;
        }

        /** The rows of now, which a question lets go of. */
        NativeMoment moment() {
            return engine.moment();
        }

        private Buffers take() {
            Buffers buffers = idle.poll();
            // An audit asks twice at one position: as usual, and exactly.
            return buffers != null
                    ? buffers
                    : new Buffers(new QueryBatch(dimension, 2), new AnswerBatch());
        }
    }

    private record Buffers(QueryBatch queries, AnswerBatch answers) {}

    @Override
    public boolean exact() {
        return readsEveryRow(copy);
    }

    /** True for exact queries and audits. */
    static boolean readsEveryRow(QueryCopy copy) {
        return copy.ticket().audit() || copy.ticket().effort() == BufferLayout.EFFORT_EXACT;
    }

    @Override
    public Found shed() {
        PartialAnswer answer =
                new PartialAnswer(
                        copy.ticket(),
                        desk.partition,
                        copy.expected(),
                        Neighbors.NONE,
                        frontier,
                        Neighbors.NONE,
                        true);
        return new Found(answer, copy.bucket(), 0, 0, System.nanoTime() - asked);
    }

    @Override
    public Found run() {
        long began = System.nanoTime();
        Buffers buffers = desk.take();
        boolean audit = copy.ticket().audit();
        int k = copy.ticket().k();
        buffers.queries.clear();
        if (copy.inFanOut()) {
            buffers.queries.add(k, copy.ticket().effort(), copy.vector());
        }
        if (audit) {
            buffers.queries.add(k, BufferLayout.EFFORT_EXACT, copy.vector());
        }
        if (moment != null) {
            buffers.answers.search(moment, buffers.queries);
        } else {
            buffers.answers.search(desk.engine, buffers.queries);
        }
        Neighbors found = copy.inFanOut() ? next(buffers.answers) : Neighbors.NONE;
        int leaves = copy.inFanOut() && !audit ? buffers.answers.leavesScanned() : 0;
        Neighbors exact = audit ? next(buffers.answers) : Neighbors.NONE;
        desk.idle.add(buffers);
        PartialAnswer answer =
                new PartialAnswer(
                        copy.ticket(), desk.partition, copy.expected(), found, frontier, exact);
        return new Found(answer, copy.bucket(), leaves, System.nanoTime() - began, began - asked);
    }

    @Override
    public void close() {
        if (moment != null) {
            moment.close();
        }
    }

    private static Neighbors next(AnswerBatch answers) {
        if (!answers.next()) {
            throw new IllegalStateException("The engine gave fewer answers than it was asked for.");
        }
        return Neighbors.of(answers);
    }
}
