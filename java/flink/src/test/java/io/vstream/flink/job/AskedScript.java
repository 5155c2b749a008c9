package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSplit;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The records of a {@link WriteScript} with queries between its writes. Each query asks for the
 * vector of a row that was written for the last time before the first gate, so the row is there
 * whatever has changed partition meanwhile.
 *
 * @param of writes, the first gate and the pace
 * @param from position of the first query, not before the first gate
 * @param every writes between two queries
 */
record AskedScript(WriteScript of, long from, int every) implements Script {

    /** Numbers of these queries begin here, beyond those of the queries at the end. */
    private static final long FIRST_QUERY = 1_000_000;

    private static final double TOLERANCE = 1e-4;
    private static final int EXACT = -1;
    private static final int AUTOMATIC = 0;
    private static final int FEW = 10;

    /** Share of approximate answers that hold the row: searches inside a partition may miss it. */
    private static final double FOUND = 0.95;

    /** Rows that no record after the first gate touches, by id. */
    private Map<Long, float[]> settled() {
        Map<Long, float[]> rows = new TreeMap<>();
        Incoming record = new Incoming();
        for (int position = 0; position < of.writes(); position++) {
            of.fill(position, record);
            if (position < of.gates()[0] && record.kind == Incoming.Kind.UPSERT) {
                rows.put(record.id, record.vector);
            } else {
                rows.remove(record.id);
            }
        }
        return rows;
    }

    private boolean asksBefore(long position) {
        return position > from && position < of.writes() && position % every == 0;
    }

    /** Every second query asks all partitions, the others those that the template names. */
    private boolean exact(long position) {
        return position / every % 2 == 0;
    }

    private long asked(long position, List<Long> ids) {
        return ids.get((int) (position / every % ids.size()));
    }

    /** Returns what is wrong with the answers; empty if nothing is. */
    List<String> differences(Map<Long, Answer> answers) {
        List<Long> ids = List.copyOf(settled().keySet());
        List<String> wrong = new ArrayList<>();
        int approximate = 0;
        int found = 0;
        for (long position = 0; position < of.writes(); position++) {
            if (!asksBefore(position)) {
                continue;
            }
            Answer answer = answers.get(FIRST_QUERY + position);
            boolean holds =
                    answer != null
                            && answer.ids().length > 0
                            && answer.ids()[0] == asked(position, ids)
                            && answer.distances()[0] < TOLERANCE;
            if (answer == null || answer.partial() || exact(position) && !holds) {
                String got = answer == null ? "nothing" : found(answer);
                long wanted = asked(position, ids);
                wrong.add("the query of " + wanted + " before record " + position + " got " + got);
            }
            approximate += exact(position) ? 0 : 1;
            found += holds && !exact(position) ? 1 : 0;
        }
        if (found < FOUND * approximate) {
            wrong.add(found + " of " + approximate + " approximate queries found their row");
        }
        return wrong;
    }

    private static String found(Answer answer) {
        return answer
                + " with "
                + Arrays.toString(answer.ids())
                + " at "
                + Arrays.toString(answer.distances());
    }

    @Override
    public Player play(ScriptSplit from, Gate gate) throws IOException {
        return new AskingPlayer(of.play(from, gate), settled());
    }

    private final class AskingPlayer extends PlayerOfWrites {

        private final Map<Long, float[]> rows;
        private final List<Long> ids;
        private long asked = -1;

        private AskingPlayer(Player writes, Map<Long, float[]> rows) {
            super(writes);
            this.rows = rows;
            this.ids = List.copyOf(rows.keySet());
        }

        @Override
        public Outcome next(long now, Incoming into) throws IOException {
            long position = writes.position().position();
            if (position == asked || !asksBefore(position)) {
                return writes.next(now, into);
            }
            asked = position;
            into.line = "";
            into.kind = Incoming.Kind.QUERY;
            into.id = FIRST_QUERY + position;
            into.effort = exact(position) ? EXACT : AUTOMATIC;
            into.k = FEW;
            into.vector = rows.get(asked(position, ids));
            into.measured = true;
            into.intendedNanos = now;
            return Outcome.RECORD;
        }
    }
}
