package io.vstream.flink.merge;

import io.vstream.flink.ingest.Frontier;
import java.util.Arrays;
import java.util.Map;

/** Answers of which a part is left out, where there is no room for the whole. */
public final class Shortened {

    private Shortened() {}

    /**
     * The answer with what its first rows carry; each of the others says that it was left out.
     *
     * @param whole rows that keep what they carry
     */
    public static Answer carrying(Answer answer, int whole) {
        AnswerRow[] rows = answer.rows().clone();
        for (int i = whole; i < rows.length; i++) {
            rows[i] = new AnswerRow(rows[i].id(), Map.of(), null, true);
        }
        return with(answer, answer.ids().length, rows, answer.partial(), answer.frontier());
    }

    /**
     * The first rows of an answer, which is partial if there are more.
     *
     * @param size rows at most
     */
    public static Answer first(Answer answer, int size) {
        boolean partial = answer.partial() || size < answer.ids().length;
        return with(answer, size, answer.rows(), partial, answer.frontier());
    }

    /** A partial answer without rows and without a word about the stream. */
    public static Answer empty(Answer answer) {
        return with(answer, 0, AnswerRow.NONE, true, Frontier.NONE);
    }

    /** Ids and distances of the first rows of an answer, and nothing else, to be looked at. */
    static Answer sample(Answer answer, int size) {
        AnswerRow[] rows = Arrays.copyOf(answer.rows(), Math.min(size, answer.rows().length));
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new AnswerRow(rows[i].id(), Map.of(), null, false);
        }
        return with(answer, size, rows, answer.partial(), Frontier.NONE);
    }

    private static Answer with(
            Answer answer, int most, AnswerRow[] rows, boolean partial, Frontier frontier) {
        int size = Math.min(most, answer.ids().length);
        return new Answer(
                answer.ticket(),
                Arrays.copyOf(answer.ids(), size),
                Arrays.copyOf(answer.distances(), size),
                Arrays.copyOf(rows, Math.min(size, rows.length)),
                answer.fanOut(),
                partial,
                frontier);
    }
}
