package io.vstream.flink.bench;

import java.util.Arrays;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/** Chroma's server over HTTP. Ids are texts there. */
final class ChromaClient implements PeerClient {

    private static final String ROOT =
            "/api/v2/tenants/default_tenant/databases/default_database/collections";

    private final JsonCalls calls;
    private final String collection;

    /** Makes the collection if it is not there: HNSW with 16 neighbours, ef 200 and the effort. */
    ChromaClient(String server, int effort) throws Exception {
        calls = new JsonCalls(server);
        String made =
                "{\"name\":\"rows\",\"get_or_create\":true,\"configuration\":{\"hnsw\":{"
                        + "\"space\":\"cosine\",\"max_neighbors\":16,"
                        + "\"ef_construction\":200,\"ef_search\":"
                        + effort
                        + "}}}";
        collection = ROOT + "/" + calls.post(ROOT, made).path("id").asText();
    }

    @Override
    public void upsert(long[] ids, float[][] vectors) throws Exception {
        String rows = JsonCalls.matrix(vectors);
        calls.post(
                collection + "/upsert", "{\"ids\":" + texts(ids) + ",\"embeddings\":" + rows + "}");
    }

    @Override
    public void delete(long[] ids) throws Exception {
        calls.post(collection + "/delete", "{\"ids\":" + texts(ids) + "}");
    }

    @Override
    public long[] query(float[] vector, int k) throws Exception {
        String body =
                "{\"query_embeddings\":["
                        + Arrays.toString(vector)
                        + "],\"n_results\":"
                        + k
                        + ",\"include\":[]}";
        return JsonCalls.longs(calls.post(collection + "/query", body).path("ids").path(0));
    }

    @Override
    public void close() {}

    private static String texts(long[] ids) {
        return LongStream.of(ids)
                .mapToObj(id -> "\"" + id + "\"")
                .collect(Collectors.joining(",", "[", "]"));
    }
}
