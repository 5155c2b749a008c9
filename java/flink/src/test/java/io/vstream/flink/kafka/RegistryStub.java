package io.vstream.flink.kafka;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** The part of a schema registry that jobs ask, on loopback and in memory. */
public final class RegistryStub implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpServer server;
    private final List<String> schemas = new ArrayList<>();
    private final List<String> requests = new ArrayList<>();
    private final List<String> credentials = new ArrayList<>();

    /** Starts it. */
    public RegistryStub() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", this::answer);
        server.start();
    }

    /** Its address. */
    public String address() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Adds a schema and returns its number. */
    public synchronized int add(String schema) {
        int known = schemas.indexOf(schema);
        if (known >= 0) {
            return known;
        }
        schemas.add(schema);
        return schemas.size() - 1;
    }

    /** The schema of a number. */
    public synchronized String schema(int number) {
        return schemas.get(number);
    }

    /** Who asked, in each request's own words; null where it does not say. */
    synchronized List<String> credentials() {
        return new ArrayList<>(credentials);
    }

    /** Paths that were asked for. */
    public synchronized List<String> requests() {
        return List.copyOf(requests);
    }

    @Override
    public void close() {
        server.stop(0);
    }

    private synchronized void answer(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        requests.add(path);
        credentials.add(exchange.getRequestHeaders().getFirst("Authorization"));
        int status = 200;
        String body;
        if (path.endsWith("/versions")) {
            String schema = JSON.readTree(exchange.getRequestBody()).path("schema").asText();
            body = "{\"id\":" + add(schema) + "}";
        } else {
            int number = Integer.parseInt(path.substring("/schemas/ids/".length()));
            boolean known = number >= 0 && number < schemas.size();
            status = known ? 200 : 404;
            body =
                    known
                            ? JSON.createObjectNode().put("schema", schemas.get(number)).toString()
                            : "{\"error_code\":40403}";
        }
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
