package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ask.ServedJob;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.Step;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.published.PublishedFile;
import io.vstream.flink.published.PublishedPartitions;
import io.vstream.flink.published.PublishedTemplates;
import io.vstream.flink.published.ReadAddress;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.VectorBatch;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReadEndpointTest {

    private static final int DIMENSION = CheckpointLab.DIMENSION;
    private static final int ROWS = 500;
    private static final int TIMEOUT_MILLIS = 10_000;

    @TempDir private Path folder;

    private NativeEngine engine;
    private ReadEndpoint endpoint;

    @BeforeEach
    void fill() {
        engine = NativeEngine.create(CheckpointLab.SETTINGS);
        VectorBatch rows = new VectorBatch(DIMENSION, ROWS);
        for (int id = 0; id < ROWS; id++) {
            rows.upsert(id, 1, 0, 0, vector(id));
        }
        engine.write(rows.buffer(), rows.count());
    }

    @AfterEach
    void close() throws Exception {
        if (endpoint != null) {
            endpoint.close();
        }
        engine.close();
    }

    private static float[] vector(long id) {
        return new float[] {id, 0, 0, 1};
    }

    private ReadAddress open(ReadSettings settings) throws IOException {
        SearchTask.Partition partition =
                new SearchTask.Partition(engine, new BufferPool(DIMENSION), 3, Long.MAX_VALUE);
        endpoint = new ReadEndpoint(settings, partition, DIMENSION, 1);
        return endpoint.address("unused");
    }

    private static ReadSettings local(String keyFile, int connections) {
        return new ReadSettings("127.0.0.1", keyFile, null, null, connections, "unused");
    }

    private static ReadRequest near(long id, int waitMillis, Frontier least) {
        return new ReadRequest(waitMillis, least, 2, 0, vector(id), Asked.NOTHING);
    }

    /** A connection of a reader. */
    private static final class Reader implements AutoCloseable {
        private final Socket socket;
        private final DataInputStream in;
        private final DataOutputStream out;

        private Reader(ReadAddress address, String key, Path certificates) throws IOException {
            socket =
                    ReadSockets.connect(
                            address.host(), address.port(), certificates, TIMEOUT_MILLIS);
            in = new DataInputStream(socket.getInputStream());
            out = new DataOutputStream(socket.getOutputStream());
            ReadFrames.greet(out, in, key);
        }

        private ReadReply ask(ReadRequest request) throws IOException {
            return ask(request.toBytes());
        }

        private ReadReply ask(byte[] request) throws IOException {
            ReadFrames.send(out, request);
            return ReadReply.of(ReadFrames.receive(in, false));
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    @Test
    void answersWithWhatIsBehindTheAnswer() throws Exception {
        ReadAddress address = open(local(null, 4));
        endpoint.applied(new Frontier(70, new long[] {5, 9}));
        endpoint.reached(11, CommandAck.position(2, Step.SWITCH));
        try (Reader reader = new Reader(address, "", null)) {
            ReadReply reply = reader.ask(near(7, 1_000, Frontier.NONE));
            assertThat(reply.status()).isEqualTo(ReadReply.Status.ANSWERED);
            assertThat(reply.rows().ids()).hasSize(2).startsWith(7);
            assertThat(reply.frontier()).isEqualTo(new Frontier(70, new long[] {5, 9}));
            assertThat(reply.run()).isEqualTo(11);
            assertThat(CommandAck.epoch(reply.position())).isEqualTo(2);
            assertThat(CommandAck.settled(reply.position())).isEqualTo(1);
            assertThat(reply.incomplete()).isFalse();
            ReadRequest all =
                    new ReadRequest(1_000, Frontier.NONE, 1_000, -1, vector(0), Asked.NOTHING);
            assertThat(reader.ask(all).rows().ids()).hasSize(ROWS);
        }
    }

    @Test
    void waitsForTheStreamUntilTheDeadline() throws Exception {
        ReadAddress address = open(local(null, 4));
        endpoint.applied(new Frontier(70, new long[] {5}));
        try (Reader reader = new Reader(address, "", null)) {
            Frontier later = new Frontier(Frontier.NO_TIME, new long[] {6});
            ReadReply late = reader.ask(near(7, 20, later));
            assertThat(late.status()).isEqualTo(ReadReply.Status.BUSY);
            assertThat(late.message()).contains("not applied that much of the stream");
            CompletableFuture<Void> applied =
                    CompletableFuture.runAsync(
                            () -> endpoint.applied(new Frontier(80, new long[] {6})),
                            CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS));
            ReadReply reply = reader.ask(near(7, 10_000, later));
            assertThat(reply.status()).isEqualTo(ReadReply.Status.ANSWERED);
            assertThat(reply.frontier().offsets()).containsExactly(6);
            applied.get();
        }
        assertThat(ReadEndpoint.reaches(Frontier.NONE, Frontier.NONE)).isTrue();
        Frontier timed = new Frontier(80, new long[0]);
        assertThat(ReadEndpoint.reaches(timed, timed)).isTrue();
        assertThat(ReadEndpoint.reaches(timed, new Frontier(81, new long[0]))).isFalse();
    }

    @Test
    void refusesWrongQuestionsAndGoesOn() throws Exception {
        ReadAddress address = open(local(null, 4));
        try (Reader reader = new Reader(address, "", null)) {
            List<byte[]> wrong = new ArrayList<>();
            for (int k : new int[] {0, -1, 1_001}) {
                wrong.add(
                        new ReadRequest(9, Frontier.NONE, k, 0, vector(1), Asked.NOTHING)
                                .toBytes());
            }
            wrong.add(new ReadRequest(9, Frontier.NONE, 1, -2, vector(1), Asked.NOTHING).toBytes());
            wrong.add(new ReadRequest(-1, Frontier.NONE, 1, 0, vector(1), Asked.NOTHING).toBytes());
            wrong.add(
                    new ReadRequest(9, Frontier.NONE, 1, 0, new float[7], Asked.NOTHING).toBytes());
            float[] bad = {1, Float.NaN, 0, 0};
            wrong.add(new ReadRequest(9, Frontier.NONE, 1, 0, bad, Asked.NOTHING).toBytes());
            byte[] whole = near(1, 9, Frontier.NONE).toBytes();
            wrong.add(Arrays.copyOf(whole, whole.length - 1));
            wrong.add(Arrays.copyOf(whole, whole.length + 1));
            wrong.add(new byte[0]);
            for (byte[] question : wrong) {
                assertThat(reader.ask(question).status()).isEqualTo(ReadReply.Status.REFUSED);
            }
            assertThat(reader.ask(near(1, 9, Frontier.NONE)).rows().ids()).startsWith(1);
            // A filter that nobody compiled is refused by the engine, and the next is answered.
            Asked made = new Asked(new byte[] {9, 9}, new short[0], false, false, Float.NaN);
            ReadRequest odd = new ReadRequest(9, Frontier.NONE, 1, 0, vector(1), made);
            assertThat(reader.ask(odd).status())
                    .isIn(ReadReply.Status.REFUSED, ReadReply.Status.FAILED);
            assertThat(reader.ask(near(2, 9, Frontier.NONE)).rows().ids()).startsWith(2);
        }
        try (Socket stranger = new Socket(address.host(), address.port())) {
            stranger.setSoTimeout(TIMEOUT_MILLIS);
            stranger.getOutputStream().write("GET / HTTP/1.1\r\n\r\n".getBytes());
            assertThat(stranger.getInputStream().read()).isEqualTo(-1);
        }
        try (Reader reader = new Reader(address, "", null)) {
            reader.out.writeInt(Integer.MAX_VALUE);
            reader.out.flush();
            assertThat(reader.in.read()).isEqualTo(-1);
        }
    }

    @Test
    void asksForTheKeyFirst() throws Exception {
        Path keyFile = Files.writeString(folder.resolve("key"), "open sesame\n");
        ReadAddress address = open(local(keyFile.toString(), 4));
        for (String wrong : List.of("", "open", "open sesame!", "OPEN SESAME")) {
            assertThatThrownBy(() -> new Reader(address, wrong, null))
                    .isInstanceOf(ReadRefused.class);
        }
        try (Reader reader = new Reader(address, "open sesame", null)) {
            assertThat(reader.ask(near(3, 9, Frontier.NONE)).rows().ids()).startsWith(3);
        }
    }

    @Test
    void takesSoManyReadersAndNoMore() throws Exception {
        ReadAddress address = open(local(null, 2));
        try (Reader one = new Reader(address, "", null);
                Reader two = new Reader(address, "", null)) {
            assertThatThrownBy(() -> new Reader(address, "", null)).isInstanceOf(IOException.class);
            assertThat(one.ask(near(1, 9, Frontier.NONE)).rows().ids()).startsWith(1);
            assertThat(two.ask(near(2, 9, Frontier.NONE)).rows().ids()).startsWith(2);
        }
    }

    @Test
    void otherMachinesNeedAKeyAndTls() throws Exception {
        assertThatThrownBy(() -> new ReadSettings("0.0.0.0", "k", null, null, 1, null))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("reads.keystore");
        assertThatThrownBy(() -> new ReadSettings("127.0.0.1", null, "k", null, 1, null))
                .hasMessageContaining("go together");
        assertThatThrownBy(() -> new ReadSettings("127.0.0.1", null, null, "p", 1, null))
                .hasMessageContaining("go together");
        Path keystore = folder.resolve("store.p12");
        Path certificate = folder.resolve("certificate.pem");
        Path password = Files.writeString(folder.resolve("password"), "changeit");
        Path keyFile = Files.writeString(folder.resolve("key"), "key");
        keytool(
                "-genkeypair",
                "-keyalg",
                "EC",
                "-alias",
                "own",
                "-dname",
                "CN=partition",
                "-ext",
                "san=ip:127.0.0.1",
                "-keystore",
                keystore.toString());
        keytool(
                "-exportcert",
                "-rfc",
                "-alias",
                "own",
                "-file",
                certificate.toString(),
                "-keystore",
                keystore.toString());
        ReadAddress listening =
                open(
                        new ReadSettings(
                                "0.0.0.0",
                                keyFile.toString(),
                                keystore.toString(),
                                password.toString(),
                                4,
                                null));
        assertThat(listening.host()).isEqualTo("unused");
        // A cluster in one process has no name for others.
        String own = endpoint.address("").host();
        assertThat(own).isNotEmpty();
        assertThat(InetAddress.getByName(own).isAnyLocalAddress()).isFalse();
        ReadAddress address = new ReadAddress("127.0.0.1", listening.port());
        try (Reader reader = new Reader(address, "key", certificate)) {
            assertThat(reader.ask(near(5, 9, Frontier.NONE)).rows().ids()).startsWith(5);
        }
        assertThatThrownBy(() -> new Reader(address, "key", null)).isInstanceOf(IOException.class);
        publish(address);
        String[] known = {
            "--job-key", keyFile.toString(), "--job-certificates", certificate.toString()
        };
        try (ServedJob server = new ServedJob(folder.toUri().toString(), known)) {
            assertThat(server.ask(vector(7), 2, true)).startsWith(7);
        }
        known[1] = Files.writeString(folder.resolve("wrong"), "another").toString();
        assertThatThrownBy(() -> new ServedJob(folder.toUri().toString(), known))
                .hasMessageContaining("a partition of the job does not take this key");
    }

    /** As a job of this one partition does, before its first template. */
    private void publish(ReadAddress address) throws IOException {
        var reads =
                new org.apache.flink.core.fs.Path(folder.toUri().toString(), ReadSettings.FOLDER);
        PublishedFile.write(
                PublishedPartitions.path(reads),
                new PublishedPartitions(1, CheckpointLab.SETTINGS, List.of(address)).toBytes());
        PublishedFile.write(
                PublishedTemplates.path(reads),
                new PublishedTemplates(0, 0, false, new byte[0], new byte[0]).toBytes());
    }

    private static void keytool(String... words) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        command.addAll(List.of(words));
        command.addAll(List.of("-storetype", "PKCS12", "-storepass", "changeit"));
        Process made = new ProcessBuilder(command).inheritIO().start();
        assertThat(made.waitFor()).isZero();
    }
}
