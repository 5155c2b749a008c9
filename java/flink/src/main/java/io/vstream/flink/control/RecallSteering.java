package io.vstream.flink.control;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;

/**
 * Keeps the results of audits of whole answers in the JobManager. From them each partition learns
 * the recall that it must reach so that whole answers reach their target.
 *
 * <p>An audit counts half after {@value #HALF_LIFE} others. Nothing is kept beyond the JobManager,
 * nor for another number of partitions: then partitions begin again with what they assume.
 */
public final class RecallSteering {

    private static final int HALF_LIFE = 512;

    private Request[] asked = new Request[0];
    private Totals sums = Totals.NONE;

    /**
     * Requests the sums; answered with {@link Totals}.
     *
     * @param partition that requests
     * @param partitions in all
     * @param ownMissed share of its own true neighbours that its searches miss, as its engine
     *     measured; not a number if it does not know
     * @param ownAllowed share that they were to miss; not a number if it was not told
     */
    public record Request(int partition, int partitions, double ownMissed, double ownAllowed)
            implements CoordinationRequest {
        private static final long serialVersionUID = 1L;

        private boolean known() {
            return Double.isFinite(ownMissed) && Double.isFinite(ownAllowed);
        }
    }

    /**
     * Sums over the audits.
     *
     * @param audits how many there were, the older ones for less
     * @param lost sum of the shares in partitions that were not asked
     * @param missed sum of the shares that partitions missed
     * @param ownMissed sum of what partitions said that they miss of their own
     * @param ownAllowed sum of what they were to miss of these
     */
    public record Totals(
            double audits, double lost, double missed, double ownMissed, double ownAllowed) {

        private static final Totals NONE = new Totals(0, 0, 0, 0, 0);

        /** Reads the answer to an {@link Request}. */
        public static Totals of(CoordinationResponse answer) throws IOException {
            ByteBuffer all = ByteBuffer.wrap(BytesResponse.read(answer).get(0));
            return new Totals(
                    all.getDouble(),
                    all.getDouble(),
                    all.getDouble(),
                    all.getDouble(),
                    all.getDouble());
        }

        /** The answer to an {@link Request}. */
        public CoordinationResponse answer() {
            return BytesResponse.of(
                    List.of(
                            ByteBuffer.allocate(5 * Double.BYTES)
                                    .putDouble(audits)
                                    .putDouble(lost)
                                    .putDouble(missed)
                                    .putDouble(ownMissed)
                                    .putDouble(ownAllowed)
                                    .array()));
        }

        private Totals times(double kept) {
            return new Totals(
                    audits * kept, lost * kept, missed * kept, ownMissed * kept, ownAllowed * kept);
        }

        private Totals plus(Totals more) {
            return new Totals(
                    audits + more.audits,
                    lost + more.lost,
                    missed + more.missed,
                    ownMissed + more.ownMissed,
                    ownAllowed + more.ownAllowed);
        }
    }

    /** Adds audits. Without a word of the partitions about themselves they cannot be compared. */
    void take(MergedAudits found) {
        List<Request> known =
                Arrays.stream(asked).filter(one -> one != null && one.known()).toList();
        if (known.isEmpty()) {
            return;
        }
        double each = (double) found.audits() / known.size();
        double ownMissed = known.stream().mapToDouble(Request::ownMissed).sum() * each;
        double ownAllowed = known.stream().mapToDouble(Request::ownAllowed).sum() * each;
        Totals more =
                new Totals(found.audits(), found.lost(), found.missed(), ownMissed, ownAllowed);
        sums = sums.times(Math.pow(0.5, (double) found.audits() / HALF_LIFE)).plus(more);
    }

    /** Answers a partition. */
    CoordinationResponse answer(Request ask) {
        if (asked.length != ask.partitions()) {
            asked = new Request[ask.partitions()];
            sums = Totals.NONE;
        }
        asked[ask.partition()] = ask;
        return sums.answer();
    }
}
