package io.vstream.flink.control;

import io.vstream.nativecore.NativeRouter;
import java.io.Serializable;

/**
 * When and how ranges change hands.
 *
 * @param policy {@code none}, {@code cells} or {@code boundary}; with the encoder lsh each of the
 *     last two shifts boundaries
 * @param intervalMillis between two looks at the loads
 * @param trigger load of the fullest partition over the mean at which something is done
 * @param folder that all machines see, for sealed rows on their way; null if there is none
 */
public record RebalanceSettings(String policy, long intervalMillis, double trigger, String folder)
        implements Serializable {

    /** Nothing changes hands; without a folder. */
    public static final RebalanceSettings DEFAULT =
            new RebalanceSettings("none", 5_000, 1.15, null);

    /** Where plans stop. */
    private static final double TARGET = 1.05;

    /** Share of all load that one plan may move. */
    private static final double MOVED_MAX = 0.5;

    private static final long REPORT_MILLIS_MAX = 1_000;

    /** True if ranges change hands at all. */
    public boolean enabled() {
        return !policy.equals("none");
    }

    /** The same with a folder. */
    public RebalanceSettings withFolder(String shared) {
        return new RebalanceSettings(policy, intervalMillis, trigger, shared);
    }

    /** Between two reports of a partition, and between two questions about them, at the most. */
    public long reportMillis() {
        return Math.min(REPORT_MILLIS_MAX, intervalMillis / 2);
    }

    NativeRouter.Limits limits() {
        return new NativeRouter.Limits(policy.equals("boundary"), trigger, TARGET, MOVED_MAX);
    }
}
