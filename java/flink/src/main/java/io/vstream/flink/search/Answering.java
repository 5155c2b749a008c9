package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.route.QueryCopy;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.flink.api.common.operators.MailboxExecutor;

/**
 * Decides what becomes of a query: it is searched beside the task, in the task, or not at all.
 *
 * <p>With as many searches under way as there may be, the query is shed: its answer is partial,
 * comes at once, and writes go on. Where the settings say so, the task waits instead, but for no
 * audit.
 */
final class Answering implements AutoCloseable {

    private final Question.Desk desk;
    private final Searching settings;
    private final Searches<Question.Found> beside;
    private final Runnable applyWrites;
    private final Supplier<Frontier> behind;
    private final Consumer<Question.Found> answers;

    /**
     * @param mailbox of the task
     * @param name of the threads
     * @param answers receives every answer, in the task thread
     */
    Answering(
            Question.Desk desk,
            Searching settings,
            MailboxExecutor mailbox,
            String name,
            Writes writes,
            Consumer<Question.Found> answers) {
        this.desk = desk;
        this.settings = settings;
        this.applyWrites = writes.apply;
        this.behind = writes.behind;
        this.answers = answers;
        beside = settings.threads() == 0 ? null : new Searches<>(mailbox, name, settings, answers);
    }

    /**
     * The writes that a query comes after.
     *
     * @param apply applies those that wait
     * @param behind how much of the vector stream they are
     */
    record Writes(Runnable apply, Supplier<Frontier> behind) {}

    /** Takes a query; every one has one answer. */
    void ask(QueryCopy copy) throws InterruptedException {
        if (beside == null) {
            applyWrites.run();
            answers.accept(new Question(desk, copy, behind.get(), null).run());
            return;
        }
        boolean exact = Question.readsEveryRow(copy);
        if (!beside.hasRoom(exact)) {
            // An audit may be left out, and nobody is to wait for one.
            if (settings.shed() || copy.ticket().audit()) {
                answers.accept(new Question(desk, copy, behind.get(), null).shed());
                return;
            }
            beside.awaitRoom(exact);
        }
        applyWrites.run();
        beside.begin(new Question(desk, copy, behind.get(), desk.moment()));
    }

    /** Waits for all answers, up to the deadline of the newest query. */
    void drain() throws InterruptedException {
        if (beside != null) {
            beside.drain();
        }
    }

    /** Answers queries that are past their deadline. */
    void shedLate() {
        if (beside != null) {
            beside.shedLate();
        }
    }

    /** Searches under way beside the task; null if it searches itself. */
    Searches<Question.Found> beside() {
        return beside;
    }

    /** How many are under way. */
    int inFlight() {
        return beside == null ? 0 : beside.inFlight();
    }

    @Override
    public void close() throws InterruptedException {
        if (beside != null) {
            beside.close();
        }
    }
}
