package io.vstream.flink.bench;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** Posts JSON to a server, and reads JSON. Safe for several threads. */
final class JsonCalls {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpClient http =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String server;

    /** Calls {@code host:port}. */
    JsonCalls(String server) {
        this.server = server;
    }

    /** What the server answers; fails unless it says that all went well. */
    JsonNode post(String path, String body) throws Exception {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://" + server + path))
                        .header("Content-Type", "application/json")
                        .POST(HttpRequest.BodyPublishers.ofString(body))
                        .build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new IOException(path + ": " + response.statusCode() + " " + response.body());
        }
        return JSON.readTree(response.body());
    }

    /** A list of lists. */
    static String matrix(float[][] vectors) {
        return Arrays.stream(vectors)
                .map(Arrays::toString)
                .collect(Collectors.joining(",", "[", "]"));
    }

    /** Numbers, which may be written as texts. */
    static long[] longs(JsonNode list) {
        long[] found = new long[list.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = list.path(i).asLong();
        }
        return found;
    }
}
