package io.vstream.flink.kafka;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.avro.Schema;
import org.apache.avro.SchemaParseException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Asks a schema registry over Confluent's HTTP interface. Records under a registry begin with a
 * zero byte and the number of their schema, 4 bytes big-endian. Nothing is kept here.
 */
final class SchemaRegistry {

    /** Bytes before a record. */
    static final int HEADER_BYTES = 1 + Integer.BYTES;

    /** No number of a schema. */
    static final int NONE = -1;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final String TYPE = "application/vnd.schemaregistry.v1+json";
    private static final int NOT_FOUND = 404;
    private static final int OK = 200;

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
    private final String address;

    /**
     * @param address HTTP address of the registry
     */
    SchemaRegistry(String address) {
        this.address = address.replaceFirst("/+$", "");
    }

    /** Number of the schema of a record, or {@link #NONE} if it does not begin as one does. */
    static int number(byte[] value) {
        return value.length < HEADER_BYTES || value[0] != 0
                ? NONE
                : ByteBuffer.wrap(value).getInt(1);
    }

    /**
     * The schema of that number, or null if there is none.
     *
     * @throws UncheckedIOException if the registry does not answer: the job should try again
     */
    Schema schema(int number) {
        HttpResponse<String> answer = send(request("/schemas/ids/" + number).GET().build());
        if (answer.statusCode() == NOT_FOUND) {
            return null;
        }
        try {
            return new Schema.Parser().parse(field(answer, "schema").asText());
        } catch (SchemaParseException e) {
            return null;
        }
    }

    /**
     * Registers the schema of a subject's values and returns its number.
     *
     * @throws UncheckedIOException if the registry does not answer or refuses the schema
     */
    int register(String subject, Schema schema) {
        String body = JSON.createObjectNode().put("schema", schema.toString()).toString();
        HttpRequest request =
                request("/subjects/" + subject + "/versions")
                        .header("Content-Type", TYPE)
                        .POST(HttpRequest.BodyPublishers.ofString(body))
                        .build();
        return field(send(request), "id").asInt();
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(address + path))
                .timeout(PATIENCE)
                .header("Accept", TYPE);
    }

    private HttpResponse<String> send(HttpRequest request) {
        try {
            return http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw unusable(e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("Interrupted while asking the schema registry.", e);
        }
    }

    private JsonNode field(HttpResponse<String> answer, String name) {
        try {
            JsonNode field = JSON.readTree(answer.body()).path(name);
            if (answer.statusCode() == OK && !field.isMissingNode()) {
                return field;
            }
            throw unusable(answer.statusCode() + " " + answer.body(), null);
        } catch (IOException e) {
            throw unusable(e.getMessage(), e);
        }
    }

    private UncheckedIOException unusable(String said, IOException cause) {
        return new UncheckedIOException(
                new IOException(
                        "The schema registry at "
                                + address
                                + " cannot be used ("
                                + said
                                + "). Check schema-registry and that it runs.",
                        cause));
    }
}
