package io.vstream.flink.cluster;

import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.kafka.TopicJob;
import io.vstream.flink.kafka.Traffic;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Kafka to job to Kafka on a cluster of processes, while processes are killed and the job is
 * rescaled; every committed answer is held to the ledger of what was written.
 */
final class Chaos implements AutoCloseable {

    /** What may happen to the system. */
    enum Event {
        /** A task manager is killed, and another is started. */
        KILL_TASK_MANAGER,
        /**
         * The JobManager is killed, and another is started, which knows nothing: the job is
         * submitted again from its newest checkpoint, by whoever watches it.
         */
        KILL_JOB_MANAGER,
        /** The broker is killed and started again. */
        BOUNCE_BROKER,
        /** The job ends at a savepoint and goes on at another parallelism. */
        RESCALE_FROM_SAVEPOINT,
        /** The job is cancelled and goes on at another parallelism from its newest checkpoint. */
        RESCALE_FROM_CHECKPOINT,
        /**
         * Nothing, until a task manager dies in the middle of a hand-over, or some time has passed:
         * loads take a while to tell of a better template.
         */
        WAIT_FOR_HAND_OVER
    }

    private static final int PARALLELISM_MAX = 4;
    private static final int TASK_MANAGERS = 2;
    private static final String RUN = "chaos";
    private static final Duration SETTLE = Duration.ofSeconds(300);
    private static final Duration HAND_OVER = Duration.ofSeconds(25);
    private static final long WATCH_MILLIS = 200;
    private static final int SAVEPOINT_TRIES = 10;

    /**
     * Cells change partition as loads shift, and some moments of that are the last of a process.
     */
    private static final String TEMPLATES =
            "{\"rebalance\": {\"policy\": \"cells\", \"interval\": 1000, \"trigger\": 1.15},"
                    + " \"faults\": {\"kill-in-hand-over\": true},";

    private final Path folder;
    private final Path jar = Path.of(System.getProperty("vstream.cluster.jar"));
    private final SplittableRandom random;
    private final KafkaBroker broker;
    private final FlinkProcesses cluster;
    private final Traffic traffic;
    private String job;
    private int parallelism = 2;
    private final AtomicInteger kills = new AtomicInteger();
    private int bounces;
    private int rescales;
    private volatile boolean enough;
    private volatile boolean watching;

    /** Starts broker, cluster and job in an empty folder, and waits for the first answers. */
    static Chaos start(Path folder, long seed) throws Exception {
        Chaos chaos = new Chaos(folder, seed);
        try {
            chaos.submit(null);
            chaos.traffic.warmUp(SETTLE);
            return chaos;
        } catch (Exception | AssertionError e) {
            chaos.close();
            throw e;
        }
    }

    private Chaos(Path folder, long seed) throws Exception {
        this.folder = folder;
        random = new SplittableRandom(seed);
        broker = KafkaBroker.start(folder.resolve("broker"));
        try {
            broker.create(Traffic.topics(RUN));
            cluster = FlinkProcesses.start(folder.resolve("flink"), TASK_MANAGERS);
        } catch (Exception e) {
            broker.close();
            throw e;
        }
        traffic = new Traffic(broker.address(), RUN, seed, true);
    }

    /** Lets events happen while records are written at {@code perSecond}, and waits for answers. */
    void run(List<Event> events, int perSecond) throws Exception {
        during(
                perSecond,
                () -> {
                    for (Event event : events) {
                        cluster.awaitCheckpoints(job, 2);
                        happen(event);
                    }
                    cluster.awaitCheckpoints(job, 1);
                });
    }

    /** Lets random events happen for so long. */
    void run(Duration duration, int perSecond) throws Exception {
        long end = System.nanoTime() + duration.toNanos();
        during(
                perSecond,
                () -> {
                    while (System.nanoTime() < end) {
                        cluster.awaitCheckpoints(job, 1 + random.nextInt(4));
                        happen(next());
                    }
                });
    }

    /** What came of it; all of the last four are 0 if nothing went wrong. */
    ObjectNode result() throws IOException {
        ObjectNode result = JsonNodeFactory.instance.objectNode();
        result.put("records", traffic.records());
        result.put("kills", kills.get());
        ObjectNode moments = result.putObject("kills_in_hand_over");
        cluster.said("Killed on demand: ").forEach(moments::put);
        result.put(
                "templates",
                cluster.said("Template ").values().stream().mapToInt(Integer::intValue).sum());
        result.put("bounces", bounces);
        result.put("rescales", rescales);
        result.put("lost", traffic.lost());
        result.put("duplicates", traffic.duplicates());
        result.put("ghosts", traffic.ghosts());
        result.put("unanswered", traffic.unanswered());
        return result;
    }

    /** What is wrong, in words. */
    List<String> findings() {
        return traffic.findings();
    }

    @Override
    public void close() throws Exception {
        cluster.close();
        traffic.close();
        broker.close();
    }

    private interface Course {
        void take() throws Exception;
    }

    /** Writes while a course of events is taken in another thread. */
    private void during(int perSecond, Course course) throws Exception {
        enough = false;
        CompletableFuture<Void> events =
                CompletableFuture.runAsync(
                        () -> {
                            try {
                                course.take();
                            } catch (Exception e) {
                                throw new CompletionException(e);
                            } finally {
                                enough = true;
                            }
                        });
        watching = true;
        CompletableFuture<Void> watch = CompletableFuture.runAsync(this::replaceDead);
        try {
            traffic.write(perSecond, written -> enough);
            events.get();
            traffic.settle(SETTLE);
        } finally {
            watching = false;
            watch.get();
        }
    }

    /** Task managers also die by themselves, in the middle of a hand-over. */
    private void replaceDead() {
        try {
            while (watching) {
                kills.addAndGet(cluster.replaceDead());
                Thread.sleep(WATCH_MILLIS);
            }
        } catch (IOException | InterruptedException e) {
            throw new CompletionException(e);
        }
    }

    /** A process dies in most of them. */
    private Event next() {
        int number = random.nextInt(12);
        if (number < 3) {
            return Event.KILL_TASK_MANAGER;
        }
        return number < 6 ? Event.WAIT_FOR_HAND_OVER : Event.values()[1 + number % 4];
    }

    private void happen(Event event) throws Exception {
        // Anywhere between two checkpoints, the commit of one included.
        Thread.sleep(random.nextInt(500));
        switch (event) {
            case KILL_TASK_MANAGER -> {
                cluster.killTaskManager(random.nextInt(cluster.taskManagers()));
                cluster.startTaskManager();
                kills.incrementAndGet();
            }
            case KILL_JOB_MANAGER -> {
                cluster.killJobManager();
                kills.incrementAndGet();
                cluster.startJobManager();
                cluster.awaitTaskManagers();
                submit(newestCheckpoint());
            }
            case BOUNCE_BROKER -> {
                broker.kill();
                broker.resume();
                bounces++;
            }
            case RESCALE_FROM_SAVEPOINT -> {
                String savepoint = savepoint();
                rescale();
                submit(savepoint);
            }
            case RESCALE_FROM_CHECKPOINT -> {
                cluster.cancel(job);
                rescale();
                submit(newestCheckpoint());
            }
            case WAIT_FOR_HAND_OVER -> {
                long end = System.nanoTime() + HAND_OVER.toNanos();
                int before = kills.get();
                while (kills.get() == before && System.nanoTime() < end) {
                    Thread.sleep(WATCH_MILLIS);
                }
            }
            default -> throw new IllegalStateException("Unknown event " + event);
        }
    }

    /** A task manager may die meanwhile: then there is none, the job recovers, and we ask again. */
    private String savepoint() throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                return cluster.stop(job, folder.resolve("savepoints"));
            } catch (IllegalStateException e) {
                if (tries == SAVEPOINT_TRIES) {
                    throw e;
                }
                cluster.awaitCheckpoints(job, 1);
            }
        }
    }

    private void rescale() {
        parallelism = (parallelism + random.nextInt(PARALLELISM_MAX - 1)) % PARALLELISM_MAX + 1;
        rescales++;
    }

    private void submit(String restore) throws Exception {
        String json =
                TopicJob.json(broker.address(), parallelism, true, folder)
                        .replace("\"topic\": \"", "\"topic\": \"" + RUN + "-")
                        .replaceFirst("\\{", TEMPLATES);
        Path file = Files.writeString(folder.resolve("job.json"), json);
        job = cluster.submit(jar, restore, "--job", file.toString());
    }

    /** The newest checkpoint of the job that completed, as whoever watches a job would find it. */
    private String newestCheckpoint() throws IOException {
        Path of = folder.resolve("checkpoints").resolve(job);
        try (Stream<Path> checkpoints = Files.list(of)) {
            return checkpoints
                    .filter(path -> Files.exists(path.resolve("_metadata")))
                    .max(Comparator.comparingInt(Chaos::number))
                    .orElseThrow()
                    .toUri()
                    .toString();
        }
    }

    private static int number(Path checkpoint) {
        return Integer.parseInt(checkpoint.getFileName().toString().substring("chk-".length()));
    }
}
