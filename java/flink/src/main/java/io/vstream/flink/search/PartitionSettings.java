package io.vstream.flink.search;

import io.vstream.flink.fault.Fault;
import java.io.Serializable;
import java.util.EnumSet;

/**
 * Settings of every partition of one search.
 *
 * @param collection normalised settings as JSON
 * @param dimension elements of every vector
 * @param stateFolder where each engine makes its private folder; null for the task manager's own
 * @param finalSnapshot folder that receives a snapshot at the end of the stream, or null
 * @param sharedFolder that all machines see, for rows that change partition, or null
 * @param reportMillis between two reports to the control task
 * @param loads whether reports say what cells cost
 * @param spreadRows rows from which an isolated group is to be spread
 * @param search how queries are answered
 * @param reads how questions from outside are answered, or null if they are not
 * @param faults defects for tests
 */
public record PartitionSettings(
        String collection,
        int dimension,
        String stateFolder,
        String finalSnapshot,
        String sharedFolder,
        long reportMillis,
        boolean loads,
        long spreadRows,
        SearchSettings search,
        ReadSettings reads,
        EnumSet<Fault> faults)
        implements Serializable {}
