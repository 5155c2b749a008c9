package io.vstream.flink.search;

import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.state.Totals;
import io.vstream.nativecore.VectorBatch;
import io.vstream.nativecore.Written;
import java.util.Arrays;
import java.util.function.Consumer;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns what the engine refuses into bad records, which are counted by reason. Decode refuses what
 * it can; only the engine knows the rows that are there: an update may make one too large, and a
 * text may have the hash of another one. Not for several threads.
 */
final class RefusedWrites {

    private static final Logger LOG = LoggerFactory.getLogger(RefusedWrites.class);

    /** Between the name of a group and the number of its slice. */
    private static final char SLICE = 0;

    /** Warnings per reason and subtask; the counters tell the rest. */
    private static final int WARNINGS_MAX = 3;

    private final Totals totals;
    private final Consumer<BadRecord> output;

    /**
     * @param output takes the bad records
     */
    RefusedWrites(Meters meters, Consumer<BadRecord> output) {
        this.output = output;
        totals =
                new Totals(
                        meters,
                        Arrays.stream(Written.Reason.values())
                                .map(reason -> Names.BAD + BadRecord.Reason.of(reason).metric())
                                .toArray(String[]::new));
    }

    /** Adds what a checkpoint has counted. */
    void restore(OperatorStateStore store) throws Exception {
        totals.restore(store);
    }

    /** Writes what was counted. */
    void snapshot() throws Exception {
        totals.snapshot();
    }

    /**
     * Counts and sends what was refused.
     *
     * @param batch which was written, and not cleared yet
     */
    void report(VectorBatch batch, Written written) {
        for (Written.Refused refused : written.refused()) {
            BadRecord.Reason reason = BadRecord.Reason.of(refused.reason());
            BadRecord bad =
                    new BadRecord(reason, named(batch, refused.record()) + ": " + refused.text());
            Count count = totals.get(refused.reason().ordinal());
            count.inc();
            if (count.getCount() <= WARNINGS_MAX) {
                LOG.warn("Refused a record, {}: {}", reason.metric(), bad.text());
            }
            output.accept(bad);
        }
    }

    private static String named(VectorBatch batch, int record) {
        String name = batch.name(record);
        String id = name.isEmpty() ? Long.toUnsignedString(batch.id(record)) : "'" + name + "'";
        String group = batch.group(record);
        int slice = group.indexOf(SLICE);
        if (slice >= 0) {
            group = group.substring(0, slice);
        }
        return "record " + id + (group.isEmpty() ? "" : " of group '" + group + "'");
    }
}
