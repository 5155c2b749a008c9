package io.vstream.flink.job;

import io.vstream.flink.metrics.MetricsView;
import io.vstream.flink.metrics.Names;

/**
 * Tells when everything that the sources sent has been applied to the index, while they wait at a
 * gate: no row is on its way, no training is going on, no row waits to be moved.
 *
 * <p>The counts are read along the stream. Each is raised only after what it counts was handed on,
 * so once a count equals the one before it, with the source waiting, neither changes again.
 */
final class QuietCheck {

    private final MetricsView metrics;
    private final int partitions;
    private final boolean placed;

    /** Of a job whose rows are placed by templates. */
    QuietCheck(MetricsView metrics, int partitions) {
        this(metrics, partitions, true);
    }

    /**
     * @param placed whether templates place rows, which a control task leads
     */
    QuietCheck(MetricsView metrics, int partitions, boolean placed) {
        this.metrics = metrics;
        this.partitions = partitions;
        this.placed = placed;
    }

    /** True if nothing is on its way. Meaningful while every source waits or has ended. */
    boolean quiet() {
        if (!textsAreEmbedded()) {
            return false;
        }
        long accepted = metrics.sum(Names.ACCEPTED);
        long sampled = metrics.sum(Names.SAMPLED);
        if (!started() || !metrics.sameAttempt()) {
            return false;
        }
        if (metrics.sum(Names.PLACED) != accepted || metrics.sum(Names.SAMPLE_TAKEN) != sampled) {
            return false;
        }
        // The epoch of the control task, of every place subtask and of every router: all agree once
        // a hand-over has come to its end.
        long epoch = metrics.min(Names.EPOCH, 0);
        if (epoch != metrics.max(Names.EPOCH, 0) || epoch < metrics.max(Names.TRAINED, 0)) {
            return false;
        }
        long sent = metrics.sum(Names.SENT);
        return metrics.sum(Names.APPLIED) == sent;
    }

    /** True if no document and no chunk is on its way to decode; so it is where there are none. */
    private boolean textsAreEmbedded() {
        long read = metrics.sum(Names.DOCUMENTS_READ);
        if (metrics.sum(Names.DOCUMENTS_SPLIT) != read) {
            return false;
        }
        long sent = metrics.sum(Names.CHUNKS_SENT);
        return metrics.sum(Names.CHUNKS_EMBEDDED) == sent;
    }

    private boolean started() {
        return metrics.subtasks(Names.PLACED) == partitions
                && metrics.subtasks(Names.APPLIED) == partitions
                && metrics.subtasks(Names.EPOCH) == 2 * partitions + (placed ? 1 : 0);
    }
}
