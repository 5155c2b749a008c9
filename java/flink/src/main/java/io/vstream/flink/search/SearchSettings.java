package io.vstream.flink.search;

import java.io.Serializable;

/**
 * How a partition answers queries: the section {@code search} of a job.
 *
 * @param threads that search beside the task, as many again for exact queries and audits, and as
 *     many once more while the task waits for those; 0 to search in the task
 * @param inFlight searches under way at most, those that wait for a thread included; exact ones
 *     have places of their own, 8 per thread
 * @param shed whether a query that finds no place is answered at once, as partial; else the task
 *     waits for a place, and everything upstream with it
 * @param deadlineMillis after which a query that still waits is answered without a search
 */
public record SearchSettings(int threads, int inFlight, boolean shed, long deadlineMillis)
        implements Serializable {

    /** Places where the task waits for one: few, as each holds on to the rows of a moment. */
    public static final int IN_FLIGHT_WAITING = 32;

    /**
     * Places where a query without one is shed: enough for a stall of some tens of milliseconds.
     */
    public static final int IN_FLIGHT_SHEDDING = 256;
}
