package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSplit;
import java.util.SplittableRandom;

/**
 * Upserts and deletes of few ids, so that most are updates that move, then queries. All of it is a
 * function of (seed, position). Writes keep to a window of ids that slides from the first id to the
 * last: what was lost in the middle is not written again. It waits at a gate before each position
 * of {@code gates}.
 *
 * @param dimension of the vectors
 * @param drift true to write around a few centers at a time, which change as the stream goes on
 * @param ids ids that occur; with fewer than 1,000 one query names every live row, with more the
 *     queries together do
 * @param writes records before the first query
 * @param queries queries at the end; every second one asks for all rows, every fourth is
 *     approximate
 * @param perSecond writes per second
 * @param gates positions of the gates, ascending; their stage is their place in the list
 */
record WriteScript(
        int dimension,
        long seed,
        boolean drift,
        int ids,
        int writes,
        int queries,
        int perSecond,
        int... gates)
        implements Script {

    private static final int DIMENSION = 64;

    /** Positions at the beginning that know all centers even if the stream drifts. */
    private static final int EVEN = 1_000;

    private static final int NEAR = 4;
    static final int ALL = 1_000;
    private static final int FEW = 10;
    private static final int EXACT = -1;
    private static final int AUTOMATIC = 0;
    private static final int CENTERS = 32;
    private static final int WINDOW = 100;
    private static final long NANOS = 1_000_000_000L;

    WriteScript(
            long seed,
            boolean drift,
            int ids,
            int writes,
            int queries,
            int perSecond,
            int... gates) {
        this(DIMENSION, seed, drift, ids, writes, queries, perSecond, gates);
    }

    WriteScript(long seed, int ids, int writes, int queries, int perSecond, int... gates) {
        this(seed, false, ids, writes, queries, perSecond, gates);
    }

    /** The same records, at a fraction of the pace. */
    WriteScript slower(int times) {
        return new WriteScript(
                dimension, seed, drift, ids, writes, queries, perSecond / times, gates);
    }

    /** Fills the record at a position. */
    void fill(long position, Incoming into) {
        SplittableRandom random = random(position);
        into.line = "";
        into.vector = new float[0];
        into.measured = true;
        if (position >= writes) {
            long number = position - writes;
            into.kind = Incoming.Kind.QUERY;
            into.id = number;
            into.effort = exact(number) ? EXACT : AUTOMATIC;
            into.k = number % 2 == 0 ? ALL : FEW;
            // Old vectors, too: there a copy that should be gone would be the nearest row.
            into.vector = number % 2 == 0 ? vector(position) : vector(random.nextInt(writes));
        } else {
            into.id = position * (ids - WINDOW) / writes + random.nextInt(WINDOW);
            boolean delete = random.nextInt(5) == 0;
            into.kind = delete ? Incoming.Kind.DELETE : Incoming.Kind.UPSERT;
            if (!delete) {
                into.vector = vector(position);
            }
        }
    }

    /** True if the answer to a query must hold the nearest rows, and not only most of them. */
    boolean exact(long query) {
        return query % 4 != 3;
    }

    /** Records in all. */
    int size() {
        return writes + queries;
    }

    private float[] vector(long position) {
        SplittableRandom random = random(~position);
        int any = random.nextInt(CENTERS);
        if (drift && position > EVEN) {
            any = (int) (position * (CENTERS - NEAR) / size()) + any % NEAR;
        }
        SplittableRandom center = new SplittableRandom(seed ^ any);
        float[] vector = new float[dimension];
        for (int i = 0; i < dimension; i++) {
            vector[i] = (float) (center.nextDouble() * 10 + random.nextDouble());
        }
        return vector;
    }

    private SplittableRandom random(long position) {
        return new SplittableRandom(seed * 31 + position);
    }

    @Override
    public Player play(ScriptSplit from, Gate gate) {
        return new WritePlayer(from.position(), gate);
    }

    private final class WritePlayer implements Player {

        private final Gate gate;
        private long position;
        private long paceNanos;
        private int waiting = -1;

        private WritePlayer(long position, Gate gate) {
            this.position = position;
            this.gate = gate;
        }

        @Override
        public Outcome next(long now, Incoming into) {
            waiting = -1;
            for (int stage = 0; stage < gates.length; stage++) {
                if (gates[stage] == position && !gate.passes(stage)) {
                    waiting = stage;
                    return Outcome.WAIT;
                }
            }
            if (position == size()) {
                return Outcome.END;
            }
            if (now < paceNanos) {
                return Outcome.WAIT;
            }
            paceNanos = Math.max(paceNanos, now - NANOS / 10) + NANOS / perSecond;
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
