package io.vstream.flink.merge;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.row.Schema;
import io.vstream.flink.search.Neighbors;
import io.vstream.nativecore.RowFields;
import java.util.List;

/** Makes an answer of what partitions found. Not for several threads. */
public final class AnswerMaker {

    private final Schema schema;
    private final Ranking ranking = new Ranking();

    /**
     * @param schema of the collection, to name what rows carry
     */
    public AnswerMaker(Schema schema) {
        this.schema = schema;
    }

    /**
     * The k nearest of all rows, each once.
     *
     * @param rows of each partition, ascending by distance
     * @param fanOut partitions that were asked
     * @param partial true if rows of a partition are missing
     * @param frontier how much of the vector stream is behind all of them
     */
    public Answer make(
            Ticket ticket, List<Neighbors> rows, int fanOut, boolean partial, Frontier frontier) {
        int size = ranking.rank(rows, ticket.k());
        long[] ids = new long[size];
        float[] distances = new float[size];
        for (int i = 0; i < size; i++) {
            ids[i] = ranking.id(i);
            distances[i] = ranking.distance(i);
        }
        return new Answer(ticket, ids, distances, carried(rows, size), fanOut, partial, frontier);
    }

    /** What the ranked rows carry, by the names of their attributes; none if nothing was asked. */
    private AnswerRow[] carried(List<Neighbors> rows, int size) {
        boolean asked = rows.stream().anyMatch(list -> list.fields() != null);
        if (!asked) {
            return AnswerRow.NONE;
        }
        AnswerRow[] carried = new AnswerRow[size];
        for (int i = 0; i < size; i++) {
            RowFields[] fields = rows.get(ranking.origin(i)).fields();
            carried[i] =
                    AnswerRow.of(
                            schema, fields == null ? RowFields.NONE : fields[ranking.place(i)]);
        }
        return carried;
    }
}
