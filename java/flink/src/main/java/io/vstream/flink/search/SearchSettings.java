package io.vstream.flink.search;

import io.vstream.flink.job.Fault;
import java.io.Serializable;
import java.util.EnumSet;

/**
 * What a partition needs to know.
 *
 * @param collection normalised settings as JSON
 * @param dimension elements of every vector
 * @param stateFolder where each engine makes its private folder; null for the task manager's own
 * @param finalSnapshot folder that receives a snapshot at the end of the stream, or null
 * @param threads that search beside the task; 0 to search in it
 * @param inFlight searches under way at most
 * @param faults defects for tests
 */
public record SearchSettings(
        String collection,
        int dimension,
        String stateFolder,
        String finalSnapshot,
        int threads,
        int inFlight,
        EnumSet<Fault> faults)
        implements Serializable {}
