package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.route.QueryCopy;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.flink.api.common.operators.MailboxExecutor;

/**
 * Decides how a query is answered: by a search beside the task, by one in the task, or by none.
 *
 * <p>With as many searches under way as there may be, the query is shed: its answer is partial,
 * comes at once, and writes go on. Where the settings say so, the task waits instead, but for no
 * audit.
 */
final class SearchAdmission implements AutoCloseable {

    private final SearchTask.Partition partition;
    private final SearchSettings settings;
    private final SearchExecutor<SearchResult> executor;
    private final Runnable applyWrites;
    private final Supplier<Frontier> frontier;
    private final Consumer<SearchResult> answers;

    /**
     * @param mailbox of the task
     * @param name of the threads
     * @param answers receives every answer, in the task thread
     */
    SearchAdmission(
            SearchTask.Partition partition,
            SearchSettings settings,
            MailboxExecutor mailbox,
            String name,
            Writes writes,
            Consumer<SearchResult> answers) {
        this.partition = partition;
        this.settings = settings;
        this.applyWrites = writes.apply;
        this.frontier = writes.frontier;
        this.answers = answers;
        executor =
                settings.threads() == 0
                        ? null
                        : new SearchExecutor<>(mailbox, name, settings, answers);
    }

    /**
     * The writes that a query comes after.
     *
     * @param apply applies those that wait
     * @param frontier how much of the vector stream they are
     */
    record Writes(Runnable apply, Supplier<Frontier> frontier) {}

    /** Takes a query; every one has one answer. */
    void ask(QueryCopy copy) throws InterruptedException {
        if (executor == null) {
            applyWrites.run();
            answers.accept(new SearchTask(partition, copy, frontier.get(), null).run());
            return;
        }
        boolean exact = SearchTask.readsEveryRow(copy);
        if (!executor.hasRoom(exact)) {
            // An audit may be left out, and nobody is to wait for one.
            if (settings.shed() || copy.ticket().audit()) {
                answers.accept(new SearchTask(partition, copy, frontier.get(), null).shed());
                return;
            }
            executor.awaitRoom(exact);
        }
        applyWrites.run();
        executor.begin(
                new SearchTask(partition, copy, frontier.get(), partition.engine().readSnapshot()));
    }

    /** Waits for all answers, up to the deadline of the newest query. */
    void drain() throws InterruptedException {
        if (executor != null) {
            executor.drain();
        }
    }

    /** Answers queries that are past their deadline. */
    void shedLate() {
        if (executor != null) {
            executor.shedLate();
        }
    }

    /** Searches under way beside the task; null if it searches itself. */
    SearchExecutor<SearchResult> executor() {
        return executor;
    }

    /** How many are under way. */
    int inFlight() {
        return executor == null ? 0 : executor.inFlight();
    }

    @Override
    public void close() throws InterruptedException {
        if (executor != null) {
            executor.close();
        }
    }
}
