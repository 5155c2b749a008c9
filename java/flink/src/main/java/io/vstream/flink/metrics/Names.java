package io.vstream.flink.metrics;

/**
 * Names of the job's metrics. Each stands in the group {@code vector} of its operator, so Flink
 * reports it as {@code flink_taskmanager_job_task_operator_vector_NAME}.
 */
public final class Names {

    /** Group of all of them. */
    public static final String GROUP = "vector";

    // Source.
    /** One of the {@code PHASE_} numbers. */
    public static final String PHASE = "phase";

    /** Inserts as fast as they are taken. */
    public static final int PHASE_PRELOAD = 0;

    /** Waits for the encoder to be trained. */
    public static final int PHASE_TRAINING = 1;

    /** Waits until what was sent is in the index. */
    public static final int PHASE_SETTLING = 2;

    /** The stream before it is measured. */
    public static final int PHASE_WARM_UP = 3;

    /** The stream, measured. */
    public static final int PHASE_STREAM = 4;

    /** No record follows. */
    public static final int PHASE_ENDED = 5;

    /** Stage of the gate that the source waits at, or -1. */
    public static final String WAITING = "waiting";

    /** When the measured phase began, nanoseconds since 1970, or 0. */
    public static final String MEASURED_SINCE = "measuredSinceNanos";

    // Texts.
    /** Records of documents read since this attempt began. */
    public static final String DOCUMENTS_READ = "documentsRead";

    /** Records of documents cut into chunks since this attempt began. */
    public static final String DOCUMENTS_SPLIT = "documentsSplit";

    /** Records of documents since this attempt began that a newer one had come before. */
    public static final String STALE_DOCUMENTS = "staleDocuments";

    /** Records of chunks sent since this attempt began. */
    public static final String CHUNKS_SENT = "chunksSent";

    /** Chunks since this attempt began that were there already, and were not embedded again. */
    public static final String CHUNKS_KEPT = "chunksKept";

    /** Records that passed the embedding since this attempt began, those without texts too. */
    public static final String CHUNKS_EMBEDDED = "chunksEmbedded";

    /** Questions read since this attempt began. */
    public static final String QUESTIONS_READ = "questionsRead";

    /** Questions that passed the embedding since this attempt began. */
    public static final String QUESTIONS_EMBEDDED = "questionsEmbedded";

    /** Texts embedded since this attempt began. */
    public static final String TEXTS_EMBEDDED = "textsEmbedded";

    /** Batches of these texts. */
    public static final String EMBED_BATCHES = "embedBatches";

    /** Time of a batch. */
    public static final String EMBED_LATENCY = "embedLatency";

    // Decode.
    /** Vector records accepted since this attempt began. */
    public static final String ACCEPTED = "accepted";

    /** Vectors handed to the trainer since this attempt began. */
    public static final String SAMPLED = "sampled";

    /** Records refused, followed by a dot and the reason. */
    public static final String BAD = "bad.";

    // Trainer.
    /** Vectors that the trainer has dealt with since this attempt began. */
    public static final String SAMPLE_TAKEN = "sampleTaken";

    /** Epoch of the trained template that an operator has come to, or 0. */
    public static final String EPOCH = "templateEpoch";

    /** Epoch that the trainer has trained, or 0. */
    public static final String TRAINED = "trainedEpoch";

    // Control task.
    /** Ordinal of the step that the control task has commanded last; 4 when nothing moves. */
    public static final String STEP = "handOverStep";

    /** Hand-overs that were planned since this attempt began. */
    public static final String PLANS = "handOverPlans";

    /** Times that the template was learned anew since this attempt began. */
    public static final String LESSONS = "lessons";

    /** Cells of the present template: more than were trained once some were split. */
    public static final String CELLS = "cells";

    // Place.
    /** Records that place has dealt with since this attempt began. */
    public static final String PLACED = "placed";

    /** Writes sent to search since this attempt began. */
    public static final String SENT = "sent";

    /** Upserts accepted in the job's life. */
    public static final String UPSERTS = "upserts";

    /** Deletes of live ids in the job's life. */
    public static final String DELETES = "deletes";

    /** Deletes of unknown ids in the job's life; they have no effect. */
    public static final String UNKNOWN_DELETES = "unknownDeletes";

    /** Updates of live ids in the job's life: what their rows carry changed. */
    public static final String UPDATES = "updates";

    /** Updates of unknown ids in the job's life; they have no effect. */
    public static final String UNKNOWN_UPDATES = "unknownUpdates";

    /** Records in the job's life that a newer one of their id had come before; no effect. */
    public static final String STALE = "staleRecords";

    /** Copies that the upserts were written as, in the job's life. */
    public static final String COPIES = "copies";

    /** Rows that changed their partition, in the job's life. */
    public static final String MOVES = "moves";

    /** Rows whose time to live was over, in the job's life. */
    public static final String ROWS_EXPIRED = "rowsExpired";

    // Search.
    /** Writes applied since this attempt began. */
    public static final String APPLIED = "applied";

    /** Updates since this attempt began that the engine found no row for. */
    public static final String WRITES_WITHOUT_ROW = "writesWithoutRow";

    /** When the last write was applied, nanoseconds since 1970. */
    public static final String LAST_APPLIED = "lastAppliedNanos";

    /** Live rows of the partition. */
    public static final String ROWS = "indexed";

    /** Searches run since this attempt began. */
    public static final String SEARCHES = "searches";

    /** Nanoseconds spent in searches since this attempt began. */
    public static final String SEARCH_NANOS = "searchNanos";

    /** Nanoseconds that searches waited for a thread since this attempt began. */
    public static final String QUEUE_NANOS = "searchQueueNanos";

    /** Queries answered as partial without a search since this attempt began; no audits. */
    public static final String SHED = "searchesShed";

    /** Queries that were searched without the rows in a remote level, which gave no answer. */
    public static final String INCOMPLETE = "searchesIncomplete";

    /** Bytes of rows that lie in a remote level alone. */
    public static final String REMOTE_BYTES = "remoteBytes";

    /** Searches under way. */
    public static final String IN_FLIGHT = "searchesInFlight";

    /** Nanoseconds spent in writes since this attempt began. */
    public static final String WRITE_NANOS = "writeNanos";

    /** Leaves read by searches since this attempt began. */
    public static final String LEAVES = "leavesScanned";

    /** Rows taken over from other partitions since this attempt began. */
    public static final String ADOPTED = "rowsAdopted";

    /** Rows that were handed over and dropped since this attempt began. */
    public static final String RELEASED = "rowsReleased";

    /** Rows of the partition that are dead and not yet reclaimed. */
    public static final String DELETED = "deleted";

    /** Milliseconds between now and the event time up to which all records are applied, or -1. */
    public static final String FRESHNESS_LAG = "freshnessLagMs";

    /** Share of the true neighbours that searches find, as the engine's recall guard measured. */
    public static final String RECALL_ESTIMATE = "recallEstimate";

    /** Half of the 95 % interval around the estimate. */
    public static final String RECALL_MARGIN = "recallMargin";

    /**
     * Recall that the partition is to reach so that whole answers reach the collection's target.
     */
    public static final String RECALL_AIM = "recallAim";

    /** Bytes of native memory of the partition, which Flink does not see. */
    public static final String NATIVE_MEMORY = "nativeMemoryBytes";

    /** Label: where rows lie, {@code memory} or {@code disk}. */
    public static final String TIER = "tier";

    /** Bytes there. */
    public static final String TIER_BYTES = "tierBytes";

    /** Mean time of a row there before it went to the next place, -1 while none has gone. */
    public static final String TIER_RESIDENCE = "tierResidenceMs";

    // Merge.
    /** Audits that ended. */
    public static final String AUDITS = "audits";

    /** Sum over the audits of the recall, in millionths. */
    public static final String RECALL_MICROS = "recallMicros";

    /** Partial answers that came after their query was answered in part. */
    public static final String EXPIRED = "expiredPartials";

    // Answers.
    /** Queries answered in the job's life. */
    public static final String ANSWERS = "answers";

    /** Measured queries answered in the job's life. */
    public static final String ANSWERS_MEASURED = "answersMeasured";

    /** Partitions that the measured queries visited, summed. */
    public static final String FAN_OUT = "fanOut";

    /** Answers that lack a partition. */
    public static final String PARTIAL = "partialAnswers";

    /** Time from the intended send to the merged answer of the measured queries. */
    public static final String LATENCY = "searchLatency";

    /** When the last answer left, nanoseconds since 1970. */
    public static final String LAST_ANSWER = "lastAnswerNanos";

    /** A few answers now and then, as lines of JSON, for display. */
    public static final String SAMPLE = "sampleAnswer";

    private Names() {}
}
