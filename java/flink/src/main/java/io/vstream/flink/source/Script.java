package io.vstream.flink.source;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Names;
import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;

/**
 * A replayable stream of records: the same position always gives the same record. The one source of
 * the job, {@link ScriptSource}, plays it.
 */
public interface Script extends Serializable {

    /** Starts to play at a position that {@link Player#position} once gave; the first is zero. */
    Player play(ScriptSplit from, Gate gate) throws IOException;

    /** The outcome of one {@link Player#next}. */
    enum Outcome {
        /** The record was filled. */
        RECORD,
        /** Nothing is due yet: ask again in a moment. */
        WAIT,
        /** There is no further record. */
        END
    }

    /** A script being played. */
    interface Player extends Closeable {

        /**
         * Fills {@code into} with the next record if it is due.
         *
         * @param now nanoseconds since 1970
         */
        Outcome next(long now, Incoming into) throws IOException;

        /** Where the next record begins. */
        ScriptSplit position();

        /** Number of the phase for metrics: see {@link Names#PHASE}. */
        int phase();

        /** Stage of the gate that the player waits at, or -1. */
        int waiting();

        /** When the measured phase began, nanoseconds since 1970, or 0. */
        long measuredSince();
    }
}
