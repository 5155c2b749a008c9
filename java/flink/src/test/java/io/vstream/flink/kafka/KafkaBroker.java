package io.vstream.flink.kafka;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Uuid;

/**
 * A real Kafka broker in a process of its own: KRaft, one node, on loopback, with a private folder.
 * Its jars are those of the module {@code broker}.
 */
public final class KafkaBroker implements AutoCloseable {

    private static final Path JARS =
            Path.of(System.getProperty("vstream.broker.lib", "../broker/target/lib"));
    private static final Duration PATIENCE = Duration.ofSeconds(90);

    private final Path folder;
    private final int port;
    private final List<String> java;
    private Process process;

    private KafkaBroker(Path folder) throws IOException {
        this.folder = folder;
        try (ServerSocket broker = free();
                ServerSocket controller = free()) {
            port = broker.getLocalPort();
            configure(controller.getLocalPort());
        }
        java =
                List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xms128m",
                        "-Xmx384m",
                        // As a task manager: a restart compiles everything again.
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Dlog4j2.configurationFile=" + folder.resolve("log4j2.properties"),
                        "-cp",
                        JARS.toAbsolutePath() + File.separator + "*");
    }

    /** Starts a broker in an empty folder and waits until it answers. */
    public static KafkaBroker start(Path folder) throws Exception {
        if (!Files.isDirectory(JARS)) {
            throw new IllegalStateException(
                    JARS.toAbsolutePath()
                            + " is missing: build the module 'broker' first, which 'mvn verify' in"
                            + " java/ does.");
        }
        KafkaBroker broker = new KafkaBroker(Files.createDirectories(folder));
        Process format =
                broker.run(
                        "kafka.tools.StorageTool",
                        "format",
                        "--standalone",
                        "-t",
                        Uuid.randomUuid().toString(),
                        "-c",
                        broker.folder.resolve("server.properties").toString());
        if (format.waitFor() != 0) {
            throw new IllegalStateException("The broker's folder cannot be made: " + broker.log());
        }
        broker.resume();
        return broker;
    }

    /** {@code host:port}. */
    public String address() {
        return "127.0.0.1:" + port;
    }

    /** Number of the process. */
    public long pid() {
        return process.pid();
    }

    /** Makes topics; the value is the number of partitions. */
    public void create(Map<String, Integer> topics) throws Exception {
        List<NewTopic> made = new ArrayList<>();
        topics.forEach((name, partitions) -> made.add(new NewTopic(name, partitions, (short) 1)));
        try (Admin admin = admin()) {
            admin.createTopics(made).all().get(30, TimeUnit.SECONDS);
        }
    }

    /** Ends the process as {@code kill -9} does. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** Starts the process again, with what it has on disk, and waits until it answers. */
    public void resume() throws Exception {
        process = run("kafka.Kafka", folder.resolve("server.properties").toString());
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            try (Admin admin = admin()) {
                admin.describeCluster().nodes().get(2, TimeUnit.SECONDS);
                return;
            } catch (Exception e) {
                if (!process.isAlive() || System.nanoTime() > end) {
                    throw new IllegalStateException("The broker does not start: " + log(), e);
                }
                Thread.sleep(100);
            }
        }
    }

    @Override
    public void close() throws InterruptedException {
        kill();
    }

    private Admin admin() {
        return Admin.create(
                Map.of(
                        AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG,
                        address(),
                        AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG,
                        2_000,
                        AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG,
                        30_000));
    }

    private Process run(String... mainAndArguments) throws IOException {
        List<String> command = new ArrayList<>(java);
        command.addAll(List.of(mainAndArguments));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(logFile().toFile()))
                .start();
    }

    private Path logFile() {
        return folder.resolve("broker.log");
    }

    private String log() throws IOException {
        return Files.exists(logFile()) ? Files.readString(logFile()) : "";
    }

    private void configure(int controllerPort) throws IOException {
        Files.writeString(
                folder.resolve("log4j2.properties"),
                """
                rootLogger.level = warn
                rootLogger.appenderRef.stderr.ref = Stderr
                appender.stderr.type = Console
                appender.stderr.name = Stderr
                appender.stderr.target = SYSTEM_ERR
                appender.stderr.layout.type = PatternLayout
                appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} - %m%n%throwable
                """);
        Files.writeString(
                folder.resolve("server.properties"),
                """
                process.roles=broker,controller
                node.id=1
                controller.quorum.bootstrap.servers=127.0.0.1:@C
                listeners=PLAINTEXT://127.0.0.1:@B,CONTROLLER://127.0.0.1:@C
                advertised.listeners=PLAINTEXT://127.0.0.1:@B,CONTROLLER://127.0.0.1:@C
                controller.listener.names=CONTROLLER
                listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
                inter.broker.listener.name=PLAINTEXT
                log.dirs=@F/data
                auto.create.topics.enable=false
                offsets.topic.replication.factor=1
                offsets.topic.num.partitions=4
                transaction.state.log.replication.factor=1
                transaction.state.log.min.isr=1
                transaction.state.log.num.partitions=4
                share.coordinator.state.topic.replication.factor=1
                share.coordinator.state.topic.min.isr=1
                group.initial.rebalance.delay.ms=0
                transaction.max.timeout.ms=900000
                log.segment.bytes=134217728
                """
                        .replace("@B", Integer.toString(port))
                        .replace("@C", Integer.toString(controllerPort))
                        .replace("@F", folder.toAbsolutePath().toString()));
    }

    private static ServerSocket free() throws IOException {
        return new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    }
}
