package io.vstream.flink.job;

import io.vstream.flink.metrics.MetricsView;
import io.vstream.flink.metrics.Names;
import org.apache.flink.api.common.JobID;

/**
 * Tells when everything that the sources sent has been applied to the index, while one of them
 * waits at a gate: no row is on its way, no training is going on, no row waits to be moved.
 *
 * <p>The counts are read along the stream. Each is raised only after what it counts was handed on,
 * so once a count equals the one before it, with the source waiting, neither changes again.
 *
 * <p>Counts begin at zero with each attempt, so only those of the present one are compared. A step
 * that had ended before the checkpoint that the attempt began with has none: it does not run again,
 * and all that it sent is part of that checkpoint.
 */
final class QuietCheck {

    private static final int NO_STAGE = -1;

    private final LocalCluster cluster;
    private final JobID job;

    QuietCheck(LocalCluster cluster, JobID job) {
        this.cluster = cluster;
        this.job = job;
    }

    /**
     * Stage of the gate that a source waits at, once all other sources have ended and all that came
     * before is applied; -1 otherwise.
     */
    int stage() throws Exception {
        // Both are cheap, and the second is false for as long as files are loaded.
        if (cluster.metrics().max(Names.WAITING, NO_STAGE) == NO_STAGE
                || cluster.metrics().others(Names.PHASE, Names.PHASE_ENDED) != 1) {
            return NO_STAGE;
        }
        int attempt = cluster.attempt(job);
        MetricsView metrics = cluster.metrics().ofAttempt(attempt);
        int stage = (int) metrics.max(Names.WAITING, NO_STAGE);
        boolean rest =
                stage != NO_STAGE
                        && metrics.others(Names.PHASE, Names.PHASE_ENDED) == 1
                        && applied(metrics)
                        // A restart meanwhile would have taken counts away.
                        && cluster.attempt(job) == attempt;
        return rest ? stage : NO_STAGE;
    }

    /** True once no source of the job will send another record. */
    boolean sourcesEnded() throws Exception {
        // Cheap, and false for most of the time.
        if (cluster.metrics().min(Names.PHASE, Names.PHASE_ENDED) != Names.PHASE_ENDED) {
            return false;
        }
        int attempt = cluster.attempt(job);
        return attempt >= 0
                && cluster.metrics().ofAttempt(attempt).others(Names.PHASE, Names.PHASE_ENDED) == 0;
    }

    private static boolean applied(MetricsView metrics) {
        if (!textsAreEmbedded(metrics)) {
            return false;
        }
        long accepted = metrics.sum(Names.ACCEPTED);
        long sampled = metrics.sum(Names.SAMPLED);
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
    private static boolean textsAreEmbedded(MetricsView metrics) {
        long read = metrics.sum(Names.DOCUMENTS_READ);
        if (metrics.sum(Names.DOCUMENTS_SPLIT) != read) {
            return false;
        }
        long sent = metrics.sum(Names.CHUNKS_SENT);
        return metrics.sum(Names.CHUNKS_EMBEDDED) == sent;
    }
}
