package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSplit;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A stream that a test writes while the job runs: an append-only list of this process, so that a
 * restart replays the same records.
 *
 * @param name of the list
 */
record RecordLog(String name) implements Script {

    private static final Map<String, List<Incoming>> ALL = new ConcurrentHashMap<>();

    /** Appends records in one go; copying the list for each of them would take for ever. */
    void append(List<Incoming> records) {
        records().addAll(records);
    }

    private List<Incoming> records() {
        return ALL.computeIfAbsent(name, key -> new CopyOnWriteArrayList<>());
    }

    /** A write of a row, or its delete if there is no vector. */
    static Incoming write(long id, float[] vector) {
        Incoming record = new Incoming();
        record.kind = vector.length == 0 ? Incoming.Kind.DELETE : Incoming.Kind.UPSERT;
        record.id = id;
        record.vector = vector;
        return record;
    }

    /** A query; {@code effort} as in {@link Incoming#effort}. */
    static Incoming query(long id, float[] vector, int k, int effort) {
        Incoming record = new Incoming();
        record.kind = Incoming.Kind.QUERY;
        record.id = id;
        record.vector = vector;
        record.k = k;
        record.effort = effort;
        return record;
    }

    @Override
    public Player play(ScriptSplit from, Gate gate) {
        return new LogPlayer(records(), from.position());
    }

    private static final class LogPlayer implements Player {

        private final List<Incoming> records;
        private long position;

        private LogPlayer(List<Incoming> records, long position) {
            this.records = records;
            this.position = position;
        }

        @Override
        public Outcome next(long now, Incoming into) {
            if (position >= records.size()) {
                return Outcome.WAIT;
            }
            Incoming record = records.get((int) position++);
            into.kind = record.kind;
            into.line = record.line;
            into.id = record.id;
            into.vector = record.vector.clone();
            into.k = record.k;
            into.effort = record.effort;
            into.intendedNanos = now;
            into.measured = true;
            into.clearExtras();
            into.fields = record.fields;
            into.group = record.group;
            into.filter = record.filter;
            into.with = record.with;
            into.newer = record.newer;
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
            return -1;
        }

        @Override
        public long measuredSince() {
            return 1;
        }

        @Override
        public void close() {}
    }
}
