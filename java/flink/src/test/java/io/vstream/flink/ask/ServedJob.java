package io.vstream.flink.ask;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** {@code vstream serve --job}: a server of its own process that asks the job, over HTTP. */
public final class ServedJob implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String SERVING = " at http://";
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final HttpClient client = HttpClient.newHttpClient();
    private final Process process;
    private final String address;

    /**
     * Starts a server, which waits for the job.
     *
     * @param more options of the command
     * @throws IOException with what the server says, if it does not start
     */
    public ServedJob(String checkpoints, String... more) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("vstream.native.dir"), "vstream").toString());
        command.addAll(List.of("serve", "--job", checkpoints));
        command.addAll(List.of("--job-deadline", "20000", "--listen", "127.0.0.1:0"));
        command.addAll(List.of(more));
        process = new ProcessBuilder(command).redirectErrorStream(true).start();
        BufferedReader said = process.inputReader(StandardCharsets.UTF_8);
        String line = said.readLine();
        if (line == null || !line.contains(SERVING)) {
            process.destroy();
            throw new IOException("The server says: " + line);
        }
        address = "http://" + line.substring(line.indexOf(SERVING) + SERVING.length());
    }

    /** Ids of the nearest rows, nearest first. */
    public long[] ask(float[] vector, int k, boolean exact)
            throws IOException, InterruptedException {
        String body =
                "{\"query\": %s, \"limit\": %d, \"params\": {\"exact\": %s}}"
                        .formatted(Arrays.toString(vector), k, exact);
        HttpResponse<String> response =
                client.send(
                        HttpRequest.newBuilder(
                                        URI.create(address + "/collections/job/points/query"))
                                .timeout(PATIENCE)
                                .header("Content-Type", "application/json")
                                .header("vstream-wait-ms", "20000")
                                .POST(HttpRequest.BodyPublishers.ofString(body))
                                .build(),
                        HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException(response.statusCode() + ": " + response.body());
        }
        JsonNode points = JSON.readTree(response.body()).path("result").path("points");
        long[] ids = new long[points.size()];
        for (int i = 0; i < ids.length; i++) {
            ids[i] = points.get(i).path("id").asLong();
        }
        return ids;
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }
}
