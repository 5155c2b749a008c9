package io.vstream.flink.control;

import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/**
 * The results of audits of whole answers since the last time. One share of the true neighbours lies
 * in partitions that were not asked; another was missed by those that were.
 *
 * @param audits how many
 * @param lost sum over them of the share in partitions that were not asked
 * @param missed sum of the share that partitions missed
 */
public record MergedAudits(long audits, double lost, double missed) implements CoordinationRequest {

    private static final long serialVersionUID = 1L;

    /** None. */
    public static final MergedAudits NONE = new MergedAudits(0, 0, 0);

    /** These and one more. */
    public MergedAudits and(double lostShare, double missedShare) {
        return new MergedAudits(audits + 1, lost + lostShare, missed + missedShare);
    }
}
