package io.vstream.flink.cluster;

import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.kafka.Recall;
import io.vstream.flink.kafka.Shape;
import io.vstream.flink.kafka.TopicJob;
import io.vstream.flink.kafka.Traffic;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
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
        /** All task managers are killed at once, and others are started. */
        KILL_TASK_MANAGERS,
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
         * A task manager is killed and none is started until the job runs without it; then one
         * comes, and the job takes its slots. Of an adaptive scheduler alone.
         */
        LOSE_SLOTS,
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
            "{\"rebalance\": {\"policy\": \"cells\", \"interval\": 3000, \"trigger\": 1.15},"
                    + " \"faults\": {\"@FAULT\": true},";

    /** Rows have texts as ids, attributes and payloads, and queries filter, unless switched off. */
    private static final boolean CARRYING =
            Boolean.parseBoolean(System.getProperty("vstream.chaos.fields", "true"));

    /** The index of segments that merges write; graphs take no fields. */
    private static final String SEGMENTS = System.getProperty("vstream.chaos.segments", "clusters");

    /** Segments lie in a folder that all task managers reach, and none on their own disks. */
    private static final boolean REMOTE = Boolean.getBoolean("vstream.chaos.remote");

    /** Some moments of a hand-over are the last of a process. */
    private static final String KILLS = "kill-in-hand-over";

    private final Path folder;
    private final Path jar = Path.of(System.getProperty("vstream.cluster.jar"));
    private final SplittableRandom random;
    private final KafkaBroker broker;
    private final FlinkProcesses cluster;
    private final Traffic traffic;
    private String job;
    private final String fault;
    private final boolean adaptive;
    private int parallelism = 2;

    /** Deaths that were scheduled here; those in the middle of a hand-over are the cluster's. */
    private final AtomicInteger kills = new AtomicInteger();

    private int ownRescales;
    private int bounces;
    private int rescales;
    private volatile boolean enough;
    private volatile boolean watching = true;
    private CompletableFuture<Void> watch = CompletableFuture.completedFuture(null);

    /** Starts broker, cluster and job in an empty folder, and waits for the first answers. */
    static Chaos start(Path folder, long seed, FlinkProcesses.Scheduler scheduler)
            throws Exception {
        return start(folder, seed, scheduler, KILLS);
    }

    /** As above, of a job with a defect. */
    static Chaos start(Path folder, long seed, FlinkProcesses.Scheduler scheduler, String fault)
            throws Exception {
        Chaos chaos = new Chaos(folder, seed, scheduler, fault);
        try {
            chaos.watch = CompletableFuture.runAsync(chaos::replaceDead);
            chaos.submit(null);
            chaos.traffic.warmUp(SETTLE);
            return chaos;
        } catch (Exception | AssertionError e) {
            chaos.close();
            throw e;
        }
    }

    private Chaos(Path folder, long seed, FlinkProcesses.Scheduler scheduler, String fault)
            throws Exception {
        this.folder = folder;
        this.fault = fault;
        adaptive = scheduler == FlinkProcesses.Scheduler.ADAPTIVE;
        // All slots there are: one task manager less is felt.
        parallelism = adaptive ? PARALLELISM_MAX : parallelism;
        random = new SplittableRandom(seed);
        broker = KafkaBroker.start(folder.resolve("broker"));
        try {
            broker.create(Traffic.topics(RUN));
            cluster = FlinkProcesses.start(folder.resolve("flink"), TASK_MANAGERS, scheduler);
        } catch (Exception e) {
            broker.close();
            throw e;
        }
        traffic = new Traffic(Shape.LARGE, broker.address(), RUN, seed, true, CARRYING);
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
                        cluster.awaitCheckpoints(job, 1 + random.nextInt(2));
                        happen(next());
                    }
                });
    }

    /** What came of it; all of the last four are 0 if nothing went wrong. */
    ObjectNode result() throws IOException {
        ObjectNode result = JsonNodeFactory.instance.objectNode();
        result.put("segments", SEGMENTS);
        result.put("remote", REMOTE);
        result.put("records", traffic.records());
        result.put("rows", traffic.rows());
        result.put("kills", kills.get() + cluster.deathsOnDemand());
        ObjectNode moments = result.putObject("kills_in_hand_over");
        cluster.said(FlinkProcesses.ON_DEMAND).forEach(moments::put);
        result.put(
                "templates",
                cluster.said("Template ").values().stream().mapToInt(Integer::intValue).sum());
        result.put("bounces", bounces);
        result.put("rescales", rescales);
        result.put("own_rescales", ownRescales);
        Recall.Summary recall = traffic.recall();
        result.put("approximate", recall.answers());
        result.put("recall", recall.share());
        result.put("recall_windows", recall.windows());
        result.put("recall_least", recall.least());
        result.put("lost", traffic.lost());
        result.put("duplicates", traffic.duplicates());
        result.put("ghosts", traffic.ghosts());
        result.put("unanswered", traffic.unanswered());
        return result;
    }

    /** What is wrong, in words. */
    List<String> findings() throws IOException {
        List<String> findings = new ArrayList<>(traffic.findings());
        if (!cluster.otherDeaths().isEmpty()) {
            findings.add("Task managers ended by themselves: " + cluster.otherDeaths());
        }
        return findings;
    }

    @Override
    public void close() throws Exception {
        watching = false;
        // It ends within a moment; what went wrong there was told by whoever waited in vain.
        watch.handle((done, e) -> done).join();
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
        traffic.write(perSecond, written -> enough);
        events.get();
        traffic.settle(SETTLE);
    }

    /** Task managers also die by themselves, in the middle of a hand-over. */
    private void replaceDead() {
        try {
            while (watching) {
                cluster.replaceDead();
                Thread.sleep(WATCH_MILLIS);
            }
        } catch (IOException | InterruptedException e) {
            throw new CompletionException(e);
        }
    }

    /** A process dies in most of them. */
    private Event next() {
        if (adaptive) {
            return adaptiveNext();
        }
        int number = random.nextInt(16);
        if (number < 5) {
            return Event.KILL_TASK_MANAGER;
        }
        if (number < 10) {
            return Event.KILL_TASK_MANAGERS;
        }
        List<Event> others =
                List.of(
                        Event.WAIT_FOR_HAND_OVER,
                        Event.KILL_JOB_MANAGER,
                        Event.BOUNCE_BROKER,
                        Event.RESCALE_FROM_SAVEPOINT,
                        Event.RESCALE_FROM_SAVEPOINT,
                        Event.RESCALE_FROM_CHECKPOINT);
        return others.get(number - 10);
    }

    private Event adaptiveNext() {
        int number = random.nextInt(8);
        if (number < 3) {
            return Event.LOSE_SLOTS;
        }
        if (number < 5) {
            return Event.KILL_TASK_MANAGER;
        }
        return number < 7 ? Event.KILL_TASK_MANAGERS : Event.BOUNCE_BROKER;
    }

    private void happen(Event event) throws Exception {
        // Anywhere between two checkpoints, the commit of one included.
        Thread.sleep(random.nextInt(500));
        switch (event) {
            case KILL_TASK_MANAGER -> kill(1);
            case KILL_TASK_MANAGERS -> kill(TASK_MANAGERS);
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
            case LOSE_SLOTS -> {
                cluster.killTaskManager(random.nextInt(cluster.taskManagers()));
                kills.incrementAndGet();
                int less = cluster.taskManagers() * cluster.slots();
                cluster.awaitParallelismUpTo(job, less);
                ownRescales++;
                cluster.awaitCheckpoints(job, 2);
                cluster.startTaskManager();
                cluster.awaitParallelism(job, parallelism);
                ownRescales++;
            }
            case WAIT_FOR_HAND_OVER -> {
                long end = System.nanoTime() + HAND_OVER.toNanos();
                int before = cluster.deathsOnDemand();
                while (cluster.deathsOnDemand() == before && System.nanoTime() < end) {
                    Thread.sleep(WATCH_MILLIS);
                }
            }
            default -> throw new IllegalStateException("Unknown event " + event);
        }
    }

    private void kill(int count) throws Exception {
        for (int i = 0; i < count; i++) {
            cluster.killTaskManager(random.nextInt(cluster.taskManagers()));
            kills.incrementAndGet();
        }
        for (int i = 0; i < count; i++) {
            cluster.startTaskManager();
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
                TopicJob.json(Shape.LARGE, broker.address(), parallelism, !CARRYING, folder)
                        .replace("\"topic\": \"", "\"topic\": \"" + RUN + "-")
                        .replaceFirst("\\{", TEMPLATES.replace("@FAULT", fault));
        json = json.replace("\"memory\": ", places() + "\"memory\": ");
        json = CARRYING ? TopicJob.carrying(json) : json;
        Path file = Files.writeString(folder.resolve("job.json"), json);
        job = cluster.submit(jar, restore, "--job", file.toString());
    }

    /** Settings of the collection on where its segments lie, and of which kind they are. */
    private String places() {
        String segments = "\"segments\": \"" + SEGMENTS + "\", ";
        String remote = "\"remote\": \"" + folder.resolve("far") + "\", \"disk\": 0, ";
        return REMOTE ? segments + remote : segments;
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
