package io.vstream.flink.bench;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Arrays;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** Chroma's server over HTTP. Ids are texts there. */
final class ChromaClient implements PeerClient {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ROOT =
            "/api/v2/tenants/default_tenant/databases/default_database/collections";

    private final HttpClient http =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String server;
    private final String collection;

    /** Makes the collection if it is not there: HNSW with 16 neighbours, ef 200 and 100. */
    ChromaClient(String server) throws Exception {
        this.server = server;
        String made =
                post(
                        ROOT,
                        "{\"name\":\"rows\",\"get_or_create\":true,\"configuration\":{\"hnsw\":{"
                                + "\"space\":\"cosine\",\"max_neighbors\":16,"
                                + "\"ef_construction\":200,\"ef_search\":100}}}");
        collection = ROOT + "/" + JSON.readTree(made).path("id").asText();
    }

    @Override
    public void upsert(long[] ids, float[][] vectors) throws Exception {
        String rows = Arrays.stream(vectors).map(Arrays::toString).collect(Collectors.joining(","));
        post(collection + "/upsert", "{\"ids\":" + texts(ids) + ",\"embeddings\":[" + rows + "]}");
    }

    @Override
    public void delete(long[] ids) throws Exception {
        post(collection + "/delete", "{\"ids\":" + texts(ids) + "}");
    }

    @Override
    public long[] query(float[] vector, int k) throws Exception {
        String body =
                "{\"query_embeddings\":["
                        + Arrays.toString(vector)
                        + "],\"n_results\":"
                        + k
                        + ",\"include\":[]}";
        JsonNode ids = JSON.readTree(post(collection + "/query", body)).path("ids").path(0);
        long[] found = new long[ids.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = Long.parseLong(ids.path(i).asText());
        }
        return found;
    }

    @Override
    public void close() {}

    private static String texts(long[] ids) {
        return LongStream.of(ids)
                .mapToObj(id -> "\"" + id + "\"")
                .collect(Collectors.joining(",", "[", "]"));
    }

    private String post(String path, String body) throws Exception {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://" + server + path))
                        .header("Content-Type", "application/json")
                        .POST(HttpRequest.BodyPublishers.ofString(body))
                        .build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new IOException(path + ": " + response.statusCode() + " " + response.body());
        }
        return response.body();
    }
}
