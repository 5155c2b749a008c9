package io.vstream.peers;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.vstream.flink.bench.PeerClient;
import io.vstream.flink.bench.PeerSystem;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The client against a real server, if the environment of bench/peers is installed. */
class MilvusClientIT {

    private static final Path PROGRAM =
            Path.of(
                    System.getProperty("vstream.peers", "../../.venv-peers/environments"),
                    "milvus_lite/bin/milvus-lite");
    private static final int DIMENSION = 16;
    private static final int ROWS = 2_000;
    private static final int K = 10;
    private static final long SEED = 20251122;
    private static final long PATIENCE_NANOS = 60_000_000_000L;

    @TempDir Path folder;

    private final Random random = new Random(SEED);
    private final Map<Long, float[]> live = new TreeMap<>();
    private Process server;
    private PeerClient client;

    @BeforeEach
    void start() throws Exception {
        assumeTrue(
                Files.isExecutable(PROGRAM),
                PROGRAM + " is not there; bench/job/README.md says how it is installed.");
        int port = freePort();
        server =
                new ProcessBuilder(
                                PROGRAM.toAbsolutePath().toString(),
                                "server",
                                "--host",
                                "127.0.0.1",
                                "--port",
                                Integer.toString(port),
                                "--data-dir",
                                folder.resolve("db").toString())
                        .redirectErrorStream(true)
                        .redirectOutput(folder.resolve("server.log").toFile())
                        .start();
        await(port);
        client = system().connect("127.0.0.1:" + port, DIMENSION);
    }

    @AfterEach
    void end() throws Exception {
        if (client != null) {
            client.close();
        }
        if (server != null) {
            server.destroyForcibly().waitFor();
        }
    }

    @Test
    void aQuerySeesEveryWriteThatHasReturned() throws Exception {
        upsert(LongStream.range(0, ROWS).toArray());
        assertAnswersAreExact();

        client.firstRowsWritten();
        // Replaced rows, new rows, and both again among the deleted.
        upsert(LongStream.range(0, ROWS).filter(id -> id % 3 == 0).toArray());
        upsert(LongStream.range(ROWS, ROWS + 200).toArray());
        delete(LongStream.range(0, ROWS + 200).filter(id -> id % 5 == 0).toArray());
        delete(new long[] {ROWS + 200, -1});
        upsert(new long[] {0, 5});

        assertAnswersAreGood();
    }

    private void upsert(long[] ids) throws Exception {
        float[][] vectors = new float[ids.length][];
        for (int i = 0; i < ids.length; i++) {
            vectors[i] = vector();
            live.put(ids[i], vectors[i]);
        }
        client.upsert(ids, vectors);
    }

    private void delete(long[] ids) throws Exception {
        LongStream.of(ids).forEach(live::remove);
        client.delete(ids);
    }

    /** Without an index all rows are compared. */
    private void assertAnswersAreExact() throws Exception {
        for (int i = 0; i < 20; i++) {
            float[] query = vector();
            assertThat(client.query(query, K))
                    .as("seed %d, query %d", SEED, i)
                    .containsExactlyInAnyOrder(nearest(query));
        }
    }

    private void assertAnswersAreGood() throws Exception {
        int found = 0;
        int queries = 50;
        for (int i = 0; i < queries; i++) {
            float[] query = vector();
            long[] nearest = nearest(query);
            long[] answer = client.query(query, K);
            assertThat(answer).as("seed %d, query %d", SEED, i).hasSize(K).doesNotHaveDuplicates();
            assertThat(live.keySet()).as("no ghost in query %d", i).containsAll(list(answer));
            found +=
                    (int)
                            LongStream.of(answer)
                                    .filter(id -> LongStream.of(nearest).anyMatch(at -> at == id))
                                    .count();
        }
        assertThat((double) found / (queries * K)).as("recall").isGreaterThan(0.95);
        // A row is nearest to itself, in its newest version.
        for (long id : new long[] {0, 3, 5, 7, ROWS + 1}) {
            assertThat(client.query(live.get(id), 1)).containsExactly(id);
        }
    }

    private long[] nearest(float[] query) {
        return live.entrySet().stream()
                .sorted(Comparator.comparingDouble(row -> -cosine(query, row.getValue())))
                .limit(K)
                .mapToLong(Map.Entry::getKey)
                .toArray();
    }

    private static double cosine(float[] a, float[] b) {
        double product = 0;
        double squareA = 0;
        double squareB = 0;
        for (int i = 0; i < a.length; i++) {
            product += (double) a[i] * b[i];
            squareA += (double) a[i] * a[i];
            squareB += (double) b[i] * b[i];
        }
        return product / Math.sqrt(squareA * squareB);
    }

    private float[] vector() {
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) random.nextGaussian();
        }
        return vector;
    }

    private static List<Long> list(long[] ids) {
        return Arrays.stream(ids).boxed().toList();
    }

    private static PeerSystem system() {
        return ServiceLoader.load(PeerSystem.class).findFirst().orElseThrow();
    }

    private static int freePort() throws IOException {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return free.getLocalPort();
        }
    }

    private void await(int port) throws Exception {
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (true) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
                return;
            } catch (IOException e) {
                if (!server.isAlive() || System.nanoTime() > end) {
                    throw new IllegalStateException(
                            Files.readString(folder.resolve("server.log")), e);
                }
                Thread.sleep(100);
            }
        }
    }
}
