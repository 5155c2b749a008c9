package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSplit;
import java.util.SplittableRandom;

/**
 * Rows once, then rounds of updates of a few of them; it waits at a gate before each round and at
 * the end.
 *
 * @param dimension of the vectors
 * @param rows in all
 * @param updates in a round
 * @param rounds of updates
 */
record UpdateScript(int dimension, int rows, int updates, int rounds) implements Script {

    private Incoming fill(long position, Incoming into) {
        SplittableRandom random = new SplittableRandom(position * 31);
        into.kind = Incoming.Kind.UPSERT;
        into.line = "";
        into.id = position < rows ? position : random.nextInt(rows);
        into.vector = new float[dimension];
        for (int i = 0; i < dimension; i++) {
            into.vector[i] = (float) random.nextDouble();
        }
        return into;
    }

    @Override
    public Player play(ScriptSplit from, Gate gate) {
        return new UpdatePlayer(from.position(), gate);
    }

    private final class UpdatePlayer implements Player {

        private final Gate gate;
        private long position;
        private int waiting = -1;

        private UpdatePlayer(long position, Gate gate) {
            this.position = position;
            this.gate = gate;
        }

        @Override
        public Outcome next(long now, Incoming into) {
            long after = position - rows;
            int round = (int) (after / updates);
            waiting = -1;
            if (after >= 0 && after % updates == 0 && !gate.passes(round)) {
                waiting = round;
                return Outcome.WAIT;
            }
            if (round >= rounds) {
                return Outcome.END;
            }
            fill(position++, into);
            into.intendedNanos = now;
            return Outcome.RECORD;
        }

        @Override
        public ScriptSplit position() {
            return new ScriptSplit(position, 0);
        }

        @Override
        public int phase() {
            return 4;
        }

        @Override
        public int waiting() {
            return waiting;
        }

        @Override
        public long measuredSince() {
            return 1;
        }

        @Override
        public void close() {}
    }
}
