package io.vstream.flink.kafka;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Asks a schema registry over Confluent's HTTP interface. Records under a registry begin with a
 * zero byte and the number of their schema, 4 bytes big-endian. Nothing is kept here.
 *
 * <p>Credentials come from the environment of each task manager: {@code
 * SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO} is {@code user:password}, or {@code
 * SCHEMA_REGISTRY_BEARER_AUTH_TOKEN} a token. They are sent over https alone, but to this machine.
 */
final class SchemaRegistry {

    /** Bytes before a record. */
    static final int HEADER_BYTES = 1 + Integer.BYTES;

    /** No number of a schema. */
    static final int NONE = -1;

    static final String USER_INFO = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO";
    static final String TOKEN = "SCHEMA_REGISTRY_BEARER_AUTH_TOKEN";

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final String TYPE = "application/vnd.schemaregistry.v1+json";
    private static final int NOT_FOUND = 404;
    private static final int OK = 200;

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
    private final String address;

    /** The header that says who asks, or null. */
    private final String credentials;

    /**
     * @param address HTTP address of the registry
     */
    SchemaRegistry(String address) {
        this(address, System.getenv());
    }

    /**
     * @param address HTTP address of the registry
     * @param environment may hold credentials
     * @throws IllegalArgumentException if credentials would be sent for everybody to read
     */
    SchemaRegistry(String address, Map<String, String> environment) {
        this.address = address.replaceFirst("/+$", "");
        this.credentials = credentials(environment);
        URI uri = URI.create(address);
        if (credentials != null && !"https".equals(uri.getScheme()) && !Loopback.isHostOf(uri)) {
            throw new IllegalArgumentException(
                    "The environment has credentials for the schema registry, and "
                            + this.address
                            + " is not encrypted. Use https.");
        }
    }

    private static String credentials(Map<String, String> environment) {
        String user = environment.get(USER_INFO);
        String token = environment.get(TOKEN);
        if (user != null && !user.isBlank()) {
            byte[] bytes = user.getBytes(StandardCharsets.UTF_8);
            return "Basic " + Base64.getEncoder().encodeToString(bytes);
        }
        return token == null || token.isBlank() ? null : "Bearer " + token.strip();
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
        } catch (AvroRuntimeException e) {
            // It is no schema, or one with a default that its type does not have.
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
        HttpRequest.Builder request =
                HttpRequest.newBuilder(URI.create(address + path))
                        .timeout(PATIENCE)
                        .header("Accept", TYPE);
        return credentials == null ? request : request.header("Authorization", credentials);
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
