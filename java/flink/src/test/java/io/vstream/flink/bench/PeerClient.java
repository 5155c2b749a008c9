package io.vstream.flink.bench;

/** A vector database as its client sees it. Safe for several threads. */
public interface PeerClient extends AutoCloseable {

    /** Writes rows; those that exist are replaced. */
    void upsert(long[] ids, float[][] vectors) throws Exception;

    /** Removes rows; those that do not exist are skipped. */
    void delete(long[] ids) throws Exception;

    /** Ids of the {@code k} nearest rows. */
    long[] query(float[] vector, int k) throws Exception;

    /**
     * Makes what a user makes once the first rows are there, if the database does not do it by
     * itself.
     */
    default void firstRowsWritten() throws Exception {}
}
