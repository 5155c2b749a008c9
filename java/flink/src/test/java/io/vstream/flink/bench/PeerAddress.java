package io.vstream.flink.bench;

import java.io.Serializable;
import java.util.ServiceLoader;

/**
 * Where a database is.
 *
 * @param system {@code chroma}, or what a {@link PeerSystem} on the class path is called
 * @param server {@code host:port}
 * @param dimension numbers of a vector
 */
record PeerAddress(String system, String server, int dimension) implements Serializable {

    /** A client, whose collection is made if it is not there. */
    PeerClient connect() throws Exception {
        if (system.equals("chroma")) {
            return new ChromaClient(server);
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
