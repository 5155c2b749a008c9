package io.vstream.flink.cluster;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * A Flink cluster of processes on loopback: a JobManager and task managers, each with a private
 * folder, and the {@code flink} command beside them.
 *
 * <p>With {@code FLINK_HOME} in the environment it is that distribution, as it is; without, it is
 * made of the same classes from Maven. Nothing of VStream or Kafka is on its class path: that comes
 * with the job's jar.
 */
final class FlinkProcesses implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(300);

    /** What a task manager logs before it kills itself; a moment of a hand-over follows. */
    static final String ON_DEMAND = "Killed on demand: ";

    /** What a process ends with that the kernel ended by signal 9. */
    private static final int KILLED = 137;

    private static final Pattern MADE =
            Pattern.compile("A savepoint has been created at: (\\S+?), but");

    /**
     * Parts of paths of what a cluster does not have; the rest of the test's class path is Flink.
     * It has snappy, which compresses its state.
     */
    private static final List<String> NOT_FLINK =
            List.of(
                    "vstream",
                    "kafka",
                    "hdrhistogram",
                    "org/apache/avro",
                    "fasterxml",
                    "zstd",
                    "lz4",
                    "junit",
                    "opentest4j",
                    "apiguardian",
                    "assertj",
                    "byte-buddy",
                    "surefire",
                    "flink-test-utils",
                    "-tests.jar",
                    "/classes",
                    "/test-classes");

    /** What a distribution's own configuration opens. */
    private static final List<String> OPENED =
            List.of(
                    "--add-opens=java.base/java.util=ALL-UNNAMED",
                    "--add-opens=java.base/java.lang=ALL-UNNAMED");

    /** Memory of one task manager, which its start script would compute. */
    private static final List<String> MEMORY =
            List.of(
                    "taskmanager.cpu.cores=1.0",
                    "taskmanager.memory.framework.heap.size=64m",
                    "taskmanager.memory.task.heap.size=384m",
                    "taskmanager.memory.framework.off-heap.size=64m",
                    "taskmanager.memory.task.off-heap.size=128m",
                    "taskmanager.memory.managed.size=16m",
                    "taskmanager.memory.network.min=64m",
                    "taskmanager.memory.network.max=64m",
                    "taskmanager.memory.jvm-metaspace.size=256m",
                    "taskmanager.memory.jvm-overhead.min=192m",
                    "taskmanager.memory.jvm-overhead.max=192m");

    private final Path folder;
    private final int rest;
    private final String classPath;
    private final HttpClient http = HttpClient.newHttpClient();
    private final List<TaskManager> taskManagers = new ArrayList<>();
    private final Scheduler scheduler;
    private final List<Integer> otherDeaths = new ArrayList<>();
    private Process jobManager;
    private int deathsOnDemand;
    private int started;

    private record TaskManager(Process process, Path log) {}

    /** How a job gets its slots. */
    enum Scheduler {
        /** It waits until there are as many as it wants. */
        DEFAULT(4, ""),
        /** It takes what there is, and other numbers as task managers come and go. */
        ADAPTIVE(
                2,
                """
                jobmanager.scheduler: adaptive
                jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout: 2 s
                jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout: 1 s
                jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling: 1 s
                jobmanager.adaptive-scheduler.rescale-trigger.max-delay: 2 s
                """);

        private final int slots;
        private final String settings;

        Scheduler(int slots, String settings) {
            this.slots = slots;
            this.settings = settings;
        }
    }

    private FlinkProcesses(Path folder, Scheduler scheduler) throws IOException {
        this.folder = folder;
        this.scheduler = scheduler;
        classPath = classPath();
        try (ServerSocket restPort = free();
                ServerSocket rpcPort = free()) {
            rest = restPort.getLocalPort();
            configure(rpcPort.getLocalPort());
        }
    }

    /** Starts a cluster in an empty folder and waits until all task managers are there. */
    static FlinkProcesses start(Path folder, int taskManagers, Scheduler scheduler)
            throws Exception {
        FlinkProcesses cluster = new FlinkProcesses(Files.createDirectories(folder), scheduler);
        try {
            cluster.startJobManager();
            for (int i = 0; i < taskManagers; i++) {
                cluster.startTaskManager();
            }
            cluster.await("all task managers", () -> cluster.registered() == taskManagers);
            return cluster;
        } catch (Exception e) {
            cluster.close();
            throw e;
        }
    }

    /** Starts the JobManager, or a new one after {@link #killJobManager}. */
    void startJobManager() throws IOException {
        jobManager =
                java(
                        "jobmanager-" + started++,
                        "-Xmx384m",
                        "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
                        List.of());
    }

    /** Starts one more task manager; it registers by itself. */
    synchronized void startTaskManager() throws IOException {
        String name = "taskmanager-" + started++;
        List<String> settings = new ArrayList<>(MEMORY);
        settings.add("io.tmp.dirs=" + Files.createDirectories(folder.resolve(name)));
        Process process =
                java(
                        name,
                        "-Xmx448m",
                        "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
                        settings);
        taskManagers.add(new TaskManager(process, log(name)));
    }

    /** Ends a task manager as {@code kill -9} does; it may have ended already. */
    synchronized void killTaskManager(int index) throws IOException, InterruptedException {
        TaskManager taskManager = taskManagers.remove(index);
        if (taskManager.process().isAlive()) {
            taskManager.process().destroyForcibly().waitFor();
        } else {
            count(taskManager);
        }
    }

    /** Starts a task manager for each that ended without {@link #killTaskManager}. */
    synchronized void replaceDead() throws IOException {
        for (TaskManager taskManager : List.copyOf(taskManagers)) {
            if (!taskManager.process().isAlive()) {
                taskManagers.remove(taskManager);
                startTaskManager();
                count(taskManager);
            }
        }
    }

    /** A death on demand says so before; signal 9 alone may be the kernel's, for want of memory. */
    private void count(TaskManager dead) throws IOException {
        boolean demanded = Files.readString(dead.log()).contains(ON_DEMAND);
        if (demanded && dead.process().exitValue() == KILLED) {
            deathsOnDemand++;
        } else {
            otherDeaths.add(dead.process().exitValue());
        }
    }

    /** Task managers that killed themselves because a fault of the job says so. */
    synchronized int deathsOnDemand() {
        return deathsOnDemand;
    }

    /** Exit codes of task managers that ended by themselves for any other reason. */
    synchronized List<Integer> otherDeaths() {
        return List.copyOf(otherDeaths);
    }

    /** Lines in the logs of all task managers so far that hold {@code words}, by what follows. */
    Map<String, Integer> said(String words) throws IOException {
        Map<String, Integer> said = new TreeMap<>();
        try (Stream<Path> logs = Files.list(folder)) {
            for (Path log : logs.filter(path -> path.toString().endsWith(".log")).toList()) {
                try (Stream<String> lines = Files.lines(log)) {
                    lines.filter(line -> line.contains(words))
                            .map(line -> line.substring(line.indexOf(words) + words.length()))
                            .forEach(what -> said.merge(what.strip(), 1, Integer::sum));
                }
            }
        }
        return said;
    }

    /** Ends the JobManager as {@code kill -9} does; its jobs are gone, their checkpoints stay. */
    void killJobManager() throws InterruptedException {
        jobManager.destroyForcibly().waitFor();
    }

    /** Task managers that run. */
    synchronized int taskManagers() {
        return taskManagers.size();
    }

    /**
     * Submits a job with the {@code flink} command.
     *
     * @param jar of the job
     * @param restore checkpoint or savepoint to start from, or null
     * @param arguments of the job
     * @return its id
     */
    String submit(Path jar, String restore, String... arguments) throws Exception {
        List<String> words = new ArrayList<>(List.of("run", "-d"));
        if (restore != null) {
            words.addAll(List.of("-s", restore));
        }
        words.add(jar.toString());
        words.addAll(List.of(arguments));
        ProcessBuilder flink;
        if (System.getenv("FLINK_HOME") != null) {
            words.add(0, Path.of(System.getenv("FLINK_HOME"), "bin", "flink").toString());
            flink = new ProcessBuilder(words);
        } else {
            flink = javaCommand("-Xmx256m", "org.apache.flink.client.cli.CliFrontend", words);
        }
        flink.environment().put("FLINK_CONF_DIR", folder.toString());
        Path log = folder.resolve("flink-run-" + started++ + ".log");
        Process process = flink.redirectErrorStream(true).redirectOutput(log.toFile()).start();
        if (process.waitFor() != 0) {
            throw new IllegalStateException("flink run failed: " + Files.readString(log));
        }
        String marker = "has been submitted with JobID ";
        String out = Files.readString(log);
        int at = out.indexOf(marker) + marker.length();
        return out.substring(at, at + 32);
    }

    /** Checkpoints that a job has completed since it was submitted. */
    int completedCheckpoints(String job) throws Exception {
        return get("/jobs/" + job + "/checkpoints").path("counts").path("completed").asInt();
    }

    /** True while all tasks of a job run. */
    boolean running(String job) throws Exception {
        JsonNode details = get("/jobs/" + job);
        if (!details.path("state").asText().equals("RUNNING")) {
            return false;
        }
        for (JsonNode vertex : details.path("vertices")) {
            if (!vertex.path("status").asText().equals("RUNNING")) {
                return false;
            }
        }
        return true;
    }

    /** How many subtasks the widest part of a job has now. */
    int parallelism(String job) throws Exception {
        int most = 0;
        for (JsonNode vertex : get("/jobs/" + job).path("vertices")) {
            most = Math.max(most, vertex.path("parallelism").asInt());
        }
        return most;
    }

    /** Waits until a job runs with so many subtasks, or fewer. */
    void awaitParallelismUpTo(String job, int most) throws Exception {
        await("fewer subtasks", () -> running(job) && parallelism(job) <= most);
    }

    /** Waits until a job runs with so many subtasks. */
    void awaitParallelism(String job, int parallelism) throws Exception {
        await("more subtasks", () -> running(job) && parallelism(job) == parallelism);
    }

    /** Slots of a task manager. */
    int slots() {
        return scheduler.slots;
    }

    /** Waits until a job runs and has completed that many more checkpoints. */
    void awaitCheckpoints(String job, int more) throws Exception {
        await("the job to run", () -> running(job));
        int from = completedCheckpoints(job);
        await("a checkpoint", () -> running(job) && completedCheckpoints(job) >= from + more);
    }

    /** Ends a job at a savepoint and returns where it is. */
    String stop(String job, Path savepoints) throws Exception {
        String body =
                JSON.createObjectNode()
                        .put("drain", false)
                        .put("targetDirectory", savepoints.toUri().toString())
                        .toString();
        String request = send("POST", "/jobs/" + job + "/stop", body).path("request-id").asText();
        JsonNode[] done = new JsonNode[1];
        await(
                "the savepoint",
                () -> {
                    done[0] = get("/jobs/" + job + "/savepoints/" + request);
                    return done[0].path("status").path("id").asText().equals("COMPLETED");
                });
        String location = done[0].path("operation").path("location").asText();
        if (location.isEmpty()) {
            // It is there, but a task died before it had ended: Flink says where to go on from.
            Matcher made = MADE.matcher(done[0].path("operation").toString());
            location = made.find() ? made.group(1) : "";
        }
        if (location.isEmpty()) {
            throw new IllegalStateException("No savepoint: " + done[0]);
        }
        awaitEnd(job);
        return location;
    }

    /** Cancels a job. */
    void cancel(String job) throws Exception {
        send("PATCH", "/jobs/" + job, "");
        awaitEnd(job);
    }

    /** Waits until the cluster has as many task managers as run. */
    void awaitTaskManagers() throws Exception {
        await("the task managers", () -> registered() == taskManagers());
    }

    @Override
    public void close() throws InterruptedException {
        List<Process> all;
        synchronized (this) {
            all = new ArrayList<>(taskManagers.stream().map(TaskManager::process).toList());
        }
        if (jobManager != null) {
            all.add(jobManager);
        }
        for (Process process : all) {
            process.destroyForcibly();
        }
        for (Process process : all) {
            process.waitFor();
        }
    }

    private void awaitEnd(String job) throws Exception {
        await(
                "the end of the job",
                () ->
                        List.of("FINISHED", "CANCELED", "FAILED")
                                .contains(get("/jobs/" + job).path("state").asText()));
    }

    private int registered() throws Exception {
        return get("/taskmanagers").path("taskmanagers").size();
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    /** The cluster may be restarting: what cannot be asked yet does not hold yet. */
    private void await(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        Exception last = null;
        while (System.nanoTime() < end) {
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (IOException | IllegalStateException e) {
                last = e;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException(
                "Waited " + PATIENCE + " for " + what + "; see the logs in " + folder, last);
    }

    private JsonNode get(String path) throws Exception {
        return send("GET", path, null);
    }

    private JsonNode send(String method, String path, String body) throws Exception {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + rest + path))
                        .timeout(Duration.ofSeconds(10))
                        .header("Content-Type", "application/json")
                        .method(
                                method,
                                body == null
                                        ? HttpRequest.BodyPublishers.noBody()
                                        : HttpRequest.BodyPublishers.ofString(body))
                        .build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new IllegalStateException(
                    method + " " + path + ": " + response.statusCode() + " " + response.body());
        }
        return JSON.readTree(response.body());
    }

    private Process java(String name, String heap, String main, List<String> settings)
            throws IOException {
        List<String> arguments = new ArrayList<>(List.of("-c", folder.toString()));
        settings.forEach(setting -> arguments.addAll(List.of("-D", setting)));
        return javaCommand(heap, main, arguments)
                .redirectErrorStream(true)
                .redirectOutput(log(name).toFile())
                .start();
    }

    private Path log(String name) {
        return folder.resolve(name + ".log");
    }

    private ProcessBuilder javaCommand(String heap, String main, List<String> arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(OPENED);
        command.add("-Dlog4j2.configurationFile=" + folder.resolve("log4j2.properties"));
        command.addAll(List.of("-cp", classPath, main));
        command.addAll(arguments);
        return new ProcessBuilder(command);
    }

    private static String classPath() throws IOException {
        String home = System.getenv("FLINK_HOME");
        if (home != null) {
            try (Stream<Path> jars = Files.list(Path.of(home, "lib"))) {
                return jars.map(Path::toString).collect(Collectors.joining(File.pathSeparator));
            }
        }
        return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(entry -> NOT_FLINK.stream().noneMatch(entry.toLowerCase()::contains))
                .collect(Collectors.joining(File.pathSeparator));
    }

    private void configure(int rpcPort) throws IOException {
        Files.writeString(
                folder.resolve("config.yaml"),
                """
                jobmanager.rpc.address: 127.0.0.1
                jobmanager.rpc.port: @RPC
                jobmanager.bind-host: 127.0.0.1
                jobmanager.memory.process.size: 1024m
                jobmanager.execution.failover-strategy: region
                rest.address: 127.0.0.1
                rest.bind-address: 127.0.0.1
                rest.port: @REST
                rest.bind-port: @REST
                taskmanager.host: 127.0.0.1
                taskmanager.bind-host: 127.0.0.1
                taskmanager.numberOfTaskSlots: @SLOTS
                taskmanager.load-balance.mode: SLOTS
                heartbeat.interval: 1000
                heartbeat.timeout: 6000
                heartbeat.rpc-failure-threshold: 2
                io.tmp.dirs: @FOLDER/tmp
                execution.checkpointing.num-retained: 2
                restart-strategy.exponential-delay.max-backoff: 2 s
                @SCHEDULER
                env.java.opts.all: @OPENED
                """
                        .replace("@OPENED", String.join(" ", OPENED))
                        .replace("@RPC", Integer.toString(rpcPort))
                        .replace("@REST", Integer.toString(rest))
                        .replace("@SLOTS", Integer.toString(scheduler.slots))
                        .replace("@SCHEDULER", scheduler.settings.strip())
                        .replace("@FOLDER", folder.toString()));
        Files.createDirectories(folder.resolve("tmp"));
        String logging =
                """
                rootLogger.level = info
                rootLogger.appenderRef.stderr.ref = Stderr
                appender.stderr.type = Console
                appender.stderr.name = Stderr
                appender.stderr.target = SYSTEM_ERR
                appender.stderr.layout.type = PatternLayout
                appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} - %m%n%throwable
                logger.kafka.name = org.apache.kafka
                logger.kafka.level = warn
                """;
        Files.writeString(folder.resolve("log4j2.properties"), logging);
        // The name that the distribution's own command looks for.
        Files.writeString(folder.resolve("log4j-cli.properties"), logging);
    }

    private static ServerSocket free() throws IOException {
        return new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    }
}
