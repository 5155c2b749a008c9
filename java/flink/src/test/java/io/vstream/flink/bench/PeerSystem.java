package io.vstream.flink.bench;

/**
 * A vector database whose client is found on the class path ({@link java.util.ServiceLoader}): a
 * client with dependencies of its own is in {@code java/peers}, not beside the tests of the job.
 */
public interface PeerSystem {

    /** The database, by the name of its environment in {@code bench/peers}. */
    String name();

    /**
     * A client of a server at {@code host:port}, whose collection is made if it is not there.
     *
     * @param dimension numbers of a vector
     */
    PeerClient connect(String server, int dimension) throws Exception;
}
