package io.vstream.flink.search;

/**
 * The result of one search, with its costs.
 *
 * @param answer for merge
 * @param bucket of the query's own code
 * @param leaves that the search read; 0 for an audit
 * @param searched false if the partition had no time for it
 * @param searchNanos that the search took
 * @param queueNanos that the query waited for a thread
 * @param largeGroup name of the group that was asked, if it has too many rows for one partition and
 *     is not spread; else null
 */
record SearchResult(
        PartialAnswer answer,
        int bucket,
        int leaves,
        boolean searched,
        long searchNanos,
        long queueNanos,
        String largeGroup) {}
