package io.vstream.flink.source;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Names;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;

/**
 * A stream made from data files: first {@code preload} inserts as fast as they are taken, then
 * queries, inserts and deletes in the exact ratio of {@link Mix}, at a fixed rate.
 *
 * <p>Insert {@code t} writes row {@code t mod rows} under the id of its row number: a new record if
 * the row is not live, else an update. {@link Victims} says what a delete removes; queries cycle
 * through the rows of the query file, whose row number is the query id. Everything is a function of
 * the position, so a restart replays the same records.
 *
 * <p>The loop is open: the record at position n of the stream is due at n / rate after the start
 * whether or not the job keeps up, and latency counts from then. After a restart the schedule goes
 * on where the checkpoint left it; the outage itself is not part of it.
 */
public final class GeneratorScript implements Script {

    private static final long serialVersionUID = 1L;

    /** Stage of the gate after the sample that trains the encoder. */
    public static final int GATE_SAMPLE = 0;

    /** Stage of the gate after the preload. */
    public static final int GATE_PRELOAD = 1;

    private static final long NANOS = 1_000_000_000L;

    private final Settings settings;

    /**
     * @param settings what to make
     */
    public GeneratorScript(Settings settings) {
        this.settings = settings;
    }

    /**
     * Settings of a generator.
     *
     * @param vectors path of the file with the rows to insert
     * @param queries path of the file with the queries, or null if the mix has none
     * @param preload inserts before the mix begins
     * @param sampleGate position of the gate {@link #GATE_SAMPLE}, or a negative number for none
     * @param limit records of the mix, 0 for no limit
     * @param mix ratio
     * @param rate records of the mix per second, 0 for as fast as they are taken
     * @param durationNanos end of the mix, 0 for no end
     * @param warmUpNanos beginning of the mix that is not measured
     * @param k neighbours that queries ask for
     * @param seed of the choice of deletes
     */
    public record Settings(
            String vectors,
            String queries,
            int preload,
            int sampleGate,
            long limit,
            Mix mix,
            long rate,
            long durationNanos,
            long warmUpNanos,
            int k,
            long seed)
            implements Serializable {}

    @Override
    public Player play(ScriptSplit from, Gate gate) throws IOException {
        DatasetFile vectors = DatasetFile.open(Path.of(settings.vectors));
        DatasetFile queries =
                settings.queries == null ? null : DatasetFile.open(Path.of(settings.queries));
        return new GeneratorPlayer(vectors, queries, from, gate);
    }

    private final class GeneratorPlayer implements Player {

        private final DatasetFile vectors;
        private final DatasetFile queries;
        private final Gate gate;
        private final Victims victims;
        private long position;
        private long playedNanos;
        private long startNanos;
        private boolean streaming;
        private long measuredSince;
        private int phase;
        private int waiting = -1;

        private GeneratorPlayer(
                DatasetFile vectors, DatasetFile queries, ScriptSplit from, Gate gate) {
            this.vectors = vectors;
            this.queries = queries;
            this.gate = gate;
            this.position = from.position();
            this.playedNanos = from.playedNanos();
            this.victims =
                    new Victims(vectors.rows(), settings.preload, settings.mix, settings.seed);
        }

        @Override
        public Outcome next(long now, Incoming into) {
            waiting = -1;
            if (position == settings.sampleGate && !gate.passes(GATE_SAMPLE)) {
                return wait(Names.PHASE_TRAINING, GATE_SAMPLE);
            }
            if (position < settings.preload) {
                phase = Names.PHASE_PRELOAD;
                insert(position++, into);
                into.intendedNanos = now;
                into.measured = false;
                return Outcome.RECORD;
            }
            if (!streaming) {
                if (!gate.passes(GATE_PRELOAD)) {
                    return wait(Names.PHASE_SETTLING, GATE_PRELOAD);
                }
                streaming = true;
                startNanos = now - playedNanos;
            }
            return stream(now, into);
        }

        private Outcome stream(long now, Incoming into) {
            long index = position - settings.preload;
            playedNanos = now - startNanos;
            long due = settings.rate > 0 ? due(index) : playedNanos;
            boolean last = settings.limit > 0 && index >= settings.limit;
            boolean late =
                    settings.durationNanos > 0
                            && Math.max(due, playedNanos) >= settings.durationNanos;
            if (last || late) {
                return Outcome.END;
            }
            if (due > playedNanos) {
                return Outcome.WAIT;
            }
            into.intendedNanos = startNanos + due;
            into.measured = due >= settings.warmUpNanos;
            phase = into.measured ? Names.PHASE_STREAM : Names.PHASE_WARM_UP;
            if (into.measured && measuredSince == 0) {
                measuredSince = into.intendedNanos;
            }
            fill(index, into);
            position++;
            return Outcome.RECORD;
        }

        private void fill(long index, Incoming into) {
            Mix mix = settings.mix;
            Mix.Op op = mix.op(index);
            long before = mix.before(op, index);
            switch (op) {
                case INSERT -> insert(settings.preload + before, into);
                case DELETE -> {
                    into.kind = Incoming.Kind.DELETE;
                    into.id = victims.insert(before) % vectors.rows();
                }
                case QUERY -> {
                    int row = (int) (before % queries.rows());
                    into.kind = Incoming.Kind.QUERY;
                    into.id = row;
                    into.k = settings.k;
                    into.effort = 0;
                    read(queries, row, into);
                }
            }
        }

        private void insert(long number, Incoming into) {
            int row = (int) (number % vectors.rows());
            into.kind = Incoming.Kind.UPSERT;
            into.id = row;
            read(vectors, row, into);
        }

        private void read(DatasetFile file, int row, Incoming into) {
            if (into.vector.length != file.dimension()) {
                into.vector = new float[file.dimension()];
            }
            file.read(row, into.vector);
        }

        /** Split so that no product overflows within 290 years. */
        private long due(long index) {
            return index / settings.rate * NANOS + index % settings.rate * NANOS / settings.rate;
        }

        private Outcome wait(int during, int stage) {
            phase = during;
            waiting = stage;
            return Outcome.WAIT;
        }

        @Override
        public ScriptSplit position() {
            return new ScriptSplit(position, playedNanos);
        }

        @Override
        public int phase() {
            return phase;
        }

        @Override
        public int waiting() {
            return waiting;
        }

        @Override
        public long measuredSince() {
            return measuredSince;
        }

        @Override
        public void close() {
            vectors.close();
            if (queries != null) {
                queries.close();
            }
        }
    }
}
