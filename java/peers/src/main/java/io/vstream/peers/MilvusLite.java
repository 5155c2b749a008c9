package io.vstream.peers;

import io.vstream.flink.bench.PeerClient;
import io.vstream.flink.bench.PeerSystem;

/** Milvus Lite, found by {@link java.util.ServiceLoader}. */
public final class MilvusLite implements PeerSystem {

    @Override
    public String name() {
        return "milvus_lite";
    }

    @Override
    public PeerClient connect(String server, int dimension) {
        return MilvusClient.connect(server, dimension);
    }
}
