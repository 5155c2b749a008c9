package io.vstream.flink.ingest;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The part of a query that goes with it from decode to its answer. Immutable.
 *
 * @param number names the query inside the job: subtask of decode in the upper 16 bits (the top bit
 *     is zero), its own count below. Never repeats, unlike the user's id
 * @param queryId the user's id, which may repeat
 * @param k neighbours asked for, 1 to 1,000
 * @param effort 0 automatic, -1 exact, or a number of leaves
 * @param intendedNanos when the query should have been sent, nanoseconds since 1970
 * @param measured true if its latency and recall count
 */
public record Ticket(
        long number, long queryId, int k, int effort, long intendedNanos, boolean measured) {

    /** Set in the number of the shadow of a query: the audit that measures recall. */
    private static final long AUDIT = 1L << 63;

    /** True for an audit, which the user never sees. */
    public boolean audit() {
        return number < 0;
    }

    /** The audit of this query. */
    public Ticket asAudit() {
        return new Ticket(number | AUDIT, queryId, k, effort, intendedNanos, measured);
    }

    /** Writes all fields. */
    public void write(DataOutputView out) throws IOException {
        out.writeLong(number);
        out.writeLong(queryId);
        out.writeInt(k);
        out.writeInt(effort);
        out.writeLong(intendedNanos);
        out.writeBoolean(measured);
    }

    /** Reads what {@link #write} wrote. */
    public static Ticket read(DataInputView in) throws IOException {
        return new Ticket(
                in.readLong(),
                in.readLong(),
                in.readInt(),
                in.readInt(),
                in.readLong(),
                in.readBoolean());
    }
}
