package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.route.QueryCopy;
import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.NativeReadSnapshot;
import io.vstream.nativecore.QueryBatch;

/** The search of one query, on the rows of one moment or on those that it finds. */
final class SearchTask implements SearchExecutor.Task<SearchResult> {

    private final Partition partition;
    private final QueryCopy copy;
    private final Frontier frontier;
    private final NativeReadSnapshot snapshot;
    private final long createdNanos = System.nanoTime();

    /**
     * @param frontier how much of the vector stream the rows hold
     * @param snapshot is closed with this task; null to search the rows that are there when it runs
     */
    SearchTask(
            Partition partition, QueryCopy copy, Frontier frontier, NativeReadSnapshot snapshot) {
        this.partition = partition;
        this.copy = copy;
        this.frontier = frontier;
        this.snapshot = snapshot;
    }

    /**
     * The partition that answers.
     *
     * @param engine that is searched
     * @param buffers for its searches
     * @param number of the partition
     * @param spreadRows rows from which an isolated group is to be spread
     */
    record Partition(NativeEngine engine, BufferPool buffers, int number, long spreadRows) {}

    @Override
    public boolean exact() {
        return readsEveryRow(copy);
    }

    /** True for exact queries and audits. */
    static boolean readsEveryRow(QueryCopy copy) {
        return copy.ticket().audit() || copy.ticket().effort() == BufferLayout.EFFORT_EXACT;
    }

    @Override
    public SearchResult shed() {
        PartialAnswer answer =
                new PartialAnswer(
                        copy.ticket(),
                        origin(),
                        copy.expected(),
                        Neighbors.NONE,
                        frontier,
                        Neighbors.NONE,
                        true);
        return new SearchResult(
                answer, copy.bucket(), 0, false, 0, System.nanoTime() - createdNanos, null);
    }

    @Override
    public SearchResult run() {
        long startedNanos = System.nanoTime();
        BufferPool.Buffers buffers = partition.buffers.take();
        boolean audit = copy.ticket().audit();
        int k = copy.ticket().k();
        buffers.queries().clear();
        if (copy.inFanOut()) {
            add(buffers.queries(), k, copy.ticket().effort());
        }
        if (audit) {
            add(buffers.queries(), k, BufferLayout.EFFORT_EXACT);
        }
        if (snapshot != null) {
            buffers.answers().search(snapshot, buffers.queries());
        } else {
            buffers.answers().search(partition.engine, buffers.queries());
        }
        Neighbors found = copy.inFanOut() ? next(buffers.answers()) : Neighbors.NONE;
        boolean incomplete = copy.inFanOut() && buffers.answers().partial();
        boolean grouped = !copy.asked().group().isEmpty();
        int read = copy.inFanOut() && !audit ? buffers.answers().leavesScanned() : 0;
        boolean large = grouped && copy.part() == QueryCopy.WHOLE && read > partition.spreadRows;
        Neighbors exact = audit ? next(buffers.answers()) : Neighbors.NONE;
        incomplete |= audit && buffers.answers().partial();
        partition.buffers.release(buffers);
        PartialAnswer answer =
                new PartialAnswer(
                        copy.ticket(),
                        origin(),
                        copy.expected(),
                        found,
                        frontier,
                        exact,
                        incomplete);
        return new SearchResult(
                answer,
                copy.bucket(),
                grouped ? 0 : read,
                true,
                System.nanoTime() - startedNanos,
                startedNanos - createdNanos,
                large ? copy.asked().group() : null);
    }

    /** What tells this partial answer from the others: merge wants each once. */
    private int origin() {
        return copy.part() == QueryCopy.WHOLE ? partition.number : copy.part();
    }

    private void add(QueryBatch queries, int k, int effort) {
        if (copy.asked().isNothing()) {
            queries.add(k, effort, copy.vector());
        } else {
            queries.add(k, effort, copy.vector(), copy.asked());
        }
    }

    @Override
    public void close() {
        if (snapshot != null) {
            snapshot.close();
        }
    }

    private static Neighbors next(AnswerBatch answers) {
        if (!answers.next()) {
            throw new IllegalStateException("The engine gave fewer answers than it was asked for.");
        }
        return Neighbors.of(answers);
    }
}
