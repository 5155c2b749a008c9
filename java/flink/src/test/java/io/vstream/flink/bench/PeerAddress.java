package io.vstream.flink.bench;

import java.io.Serializable;
import java.util.ServiceLoader;
import java.util.Set;

/**
 * Where a database is.
 *
 * @param system {@code chroma}, one of {@code bench/job/served}, or what a {@link PeerSystem} on
 *     the class path is called
 * @param server {@code host:port}
 * @param dimension numbers of a vector
 * @param effort of a search, in the words of the database: candidates of a graph, or lists
 */
record PeerAddress(String system, String server, int dimension, int effort)
        implements Serializable {

    private static final Set<String> SERVED = Set.of("qdrant_edge", "lancedb");

    /** A client, whose collection is made if it is not there. */
    PeerClient connect() throws Exception {
        if (system.equals("chroma")) {
            return new ChromaClient(server, effort);
        }
        if (SERVED.contains(system)) {
            return new ServedClient(server);
        }
        for (PeerSystem peer :
                ServiceLoader.load(PeerSystem.class, PeerSystem.class.getClassLoader())) {
            if (peer.name().equals(system)) {
                return peer.connect(server, dimension);
            }
        }
        throw new IllegalArgumentException(
                "There is no client of "
                        + system
                        + " on the class path; those of java/peers are built with the profile"
                        + " peers.");
    }
}
