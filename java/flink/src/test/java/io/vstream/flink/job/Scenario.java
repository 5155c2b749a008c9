package io.vstream.flink.job;

import io.vstream.flink.dataflow.DataflowSettings;
import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.metrics.MetricsView;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSource;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.IntConsumer;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Runs a {@link WriteScript} through the whole job on a cluster with several task managers, each
 * with its own local folder, and compares the answers with the {@link Oracle}.
 */
final class Scenario {

    /** Rows that the encoder is trained on. */
    static final int SAMPLE = 400;

    /** Cells that are trained. */
    static final int CELLS = 16;

    /**
     * Share of the nearest rows that one family of hashes finds at the least. It has no target:
     * 0.95 were found where no boundary shifted, and 0.89 to 0.97 where boundaries did, since even
     * partitions divide more neighbours.
     */
    private static final double HASHED_RECALL_MIN = 0.8;

    private static final Duration CHECKPOINT_EVERY = Duration.ofMillis(100);
    private static final long LIMIT_NANOS = Duration.ofSeconds(120).toNanos();

    /** With rows in a store: so long that no answer is partial because the machine is busy. */
    private static final Duration REMOTE_DEADLINE = Duration.ofSeconds(60);

    /** The remote level has settled once it was the same for so long. */
    private static final Duration REMOTE_SETTLED = Duration.ofSeconds(1);

    private final String name = UUID.randomUUID().toString();
    private final WriteScript script;
    private final String checkpoints;
    private final Answers answers = new Answers(name);
    private String fault;
    private String encoder =
            "{\"kind\": \"cells\", \"cells\": " + CELLS + ", \"recall-target\": 0.98}";
    private String rebalance = "{\"policy\": \"none\"}";
    private long memory;
    private String remote;
    private IntConsumer atGate = stage -> {};
    private int families = 1;
    private double recallMin = Oracle.TARGET - Oracle.SLACK;
    private long adopted;
    private long cells;
    private long epoch;
    private int attempts;
    private int failAfter = Integer.MAX_VALUE;
    private boolean readable;
    private String restore;
    private int openStages = Integer.MAX_VALUE;
    private boolean atCheckpoint;
    private RecoveryClaimMode claim = RecoveryClaimMode.NO_CLAIM;
    private ProductScript products;
    private AskedScript asked;
    private int shards = 128;
    private String rowKeys = "\"id\": \"u64\"";

    Scenario(WriteScript script, Path checkpoints) {
        this(script, checkpoints.toUri().toString());
    }

    /** Keeps checkpoints at an address. */
    Scenario(WriteScript script, String checkpoints) {
        this.script = script;
        this.checkpoints = checkpoints;
    }

    /** Switches a defect on. */
    Scenario with(Fault defect) {
        fault = defect.key();
        return this;
    }

    /**
     * Uses an encoder that places a row in up to so many partitions. A query visits as many, and
     * finds what is there: hashes have no target of recall.
     */
    Scenario withFamilies(int families) {
        encoder =
                """
                {"kind": "lsh", "curve": "hilbert", "families": %d, "hashes": 4, "bits": 6}
                """
                        .formatted(families);
        this.families = families;
        recallMin = families == 1 ? HASHED_RECALL_MIN : 0;
        return this;
    }

    /** Asks between the writes, too. */
    Scenario asking(AskedScript script) {
        asked = script;
        return this;
    }

    /** Writes and asks for products in place of rows that carry nothing. */
    Scenario carrying(ProductScript carried) {
        products = carried;
        return withRows(carried.keys());
    }

    /** Has a collection with these keys about its rows, whatever the products carry. */
    Scenario withRows(String keys) {
        rowKeys = keys;
        return this;
    }

    /** Has a collection with so many shards. */
    Scenario withShards(int count) {
        shards = count;
        return this;
    }

    /** Gives partitions so much memory in bytes: what does not fit lies in segments. */
    Scenario withMemory(long bytes) {
        memory = bytes;
        return this;
    }

    /**
     * Gives partitions little memory and no disk: rows that were flushed lie in a store, and some
     * do whenever it stands at a gate but the first.
     */
    Scenario withRemote(String address) {
        memory = 1 << 16;
        remote = address;
        return this;
    }

    /**
     * Does something at each gate before it opens, when all records before it have been applied.
     */
    Scenario atGates(IntConsumer does) {
        atGate = does;
        return this;
    }

    /** The answers so far. */
    Map<Long, Answer> answers() {
        return answers.byQuery();
    }

    /** Lets ranges change hands at the least reason, five times a second. */
    Scenario rebalancing(String policy) {
        rebalance =
                """
                {"policy": "%s", "interval": 200, "trigger": 1.06}
                """
                        .formatted(policy);
        return this;
    }

    /** Rows that changed partition in the last attempt, once it has run. */
    long adopted() {
        return adopted;
    }

    /** Cells of the last template, once it has run. */
    long cells() {
        return cells;
    }

    /** Number of the last template, once it has run. */
    long epoch() {
        return epoch;
    }

    /** Records that all partitions have applied, and that no restart takes back. */
    long applied() {
        return Applied.records(name);
    }

    /** Attempts that it took. */
    int attempts() {
        return attempts;
    }

    /** Lets readers outside of the job ask its partitions. */
    Scenario readable() {
        readable = true;
        return this;
    }

    /** Uses an encoder that needs no training. */
    Scenario byId() {
        encoder = "{\"kind\": \"id\"}";
        return this;
    }

    /** Throws once, after that many records. */
    Scenario failingAfter(int records) {
        failAfter = records;
        return this;
    }

    /** Starts from a savepoint. */
    Scenario from(String savepoint) {
        restore = savepoint;
        return this;
    }

    /** Starts from a checkpoint, whose files it takes over or leaves alone. */
    Scenario from(String checkpoint, RecoveryClaimMode mode) {
        claim = mode;
        return from(checkpoint);
    }

    /** Runs up to a gate, is cancelled there and returns its last checkpoint. */
    String cancelAt(int stage, int parallelism) throws Exception {
        atCheckpoint = true;
        return stopAt(stage, parallelism);
    }

    /** Runs up to a gate and returns the savepoint there. */
    String stopAt(int stage, int parallelism) throws Exception {
        openStages = stage - 1;
        return run(parallelism);
    }

    /** Runs to the end and returns what is wrong. */
    List<String> differences(int parallelism) throws Exception {
        long rows = Long.parseLong(run(parallelism));
        if (failAfter != Integer.MAX_VALUE && !FailOnce.failed(name)) {
            throw new AssertionError("The job was meant to fail in the middle and did not.");
        }
        if (products != null) {
            return new ProductOracle(products).differences(answers.byQuery(), rows);
        }
        int copiesMax = Math.min(families, parallelism);
        List<String> wrong =
                new Oracle(script).differences(answers.byQuery(), rows, copiesMax, recallMin);
        if (asked != null) {
            wrong.addAll(asked.differences(answers.byQuery()));
        }
        return wrong;
    }

    private Script played() {
        if (products != null) {
            return products;
        }
        return asked == null ? script : asked;
    }

    /** Returns the savepoint where it stopped, or the number of rows at its end. */
    private String run(int parallelism) throws Exception {
        Gate gate = Gate.install(name);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(flink());
        JobSettings settings = settings(parallelism);
        DataStream<Incoming> records =
                env.fromSource(
                                new ScriptSource(played(), name),
                                WatermarkStrategy.noWatermarks(),
                                "script",
                                Incoming.TYPE)
                        .setParallelism(1)
                        .uid("script")
                        .map(new FailOnce(name, failAfter))
                        .returns(Incoming.TYPE)
                        .setParallelism(1)
                        .uid("fail-once")
                        .map(new Applied(name))
                        .returns(Incoming.TYPE)
                        .setParallelism(1)
                        .uid("applied");
        SearchDataflow.add(env, settings.dataflow(), new SearchDataflow.Inputs(records, null))
                .answers()
                .sinkTo(answers)
                .uid("answers");
        try (LocalCluster cluster = new LocalCluster(2, (parallelism + 1) / 2)) {
            JobID job = cluster.submit(env, name);
            if (openGates(cluster, job, gate)) {
                if (atCheckpoint) {
                    String checkpoint = cluster.checkpoint(job).get();
                    cluster.cancel(job);
                    cluster.await(job);
                    return checkpoint;
                }
                return cluster.stop(job, checkpoints + "/savepoints");
            }
            var result = cluster.await(job);
            if (!result.isSuccess()) {
                throw new AssertionError(result.getSerializedThrowable().orElseThrow());
            }
            adopted = cluster.metrics().sum(Names.ADOPTED);
            cells = cluster.metrics().max(Names.CELLS, 0);
            epoch = cluster.metrics().max(Names.EPOCH, 0);
            attempts = cluster.metrics().attempts();
            return Long.toString(cluster.metrics().sum(Names.ROWS));
        } finally {
            Gate.release(name);
        }
    }

    /** Opens gates whenever all is applied; true once it stands at one that must stay closed. */
    private boolean openGates(LocalCluster cluster, JobID job, Gate gate) throws Exception {
        MetricsView metrics = cluster.metrics();
        QuietCheck quiet = new QuietCheck(cluster, job);
        long end = System.nanoTime() + LIMIT_NANOS;
        int reached = -1;
        while (!cluster.status(job).isGloballyTerminalState()) {
            Thread.sleep(10);
            int round = gate.round();
            int waiting = quiet.stage();
            if (waiting >= 0 && cluster.running(job)) {
                if (waiting > 0) {
                    awaitRemote(cluster);
                }
                if (waiting > openStages) {
                    return true;
                }
                if (waiting > reached) {
                    reached = waiting;
                    atGate.accept(waiting);
                }
                gate.open(waiting, round);
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("The job has not ended within two minutes: " + metrics);
            }
        }
        return false;
    }

    /**
     * Waits until segments are in the remote level, if there is one, and stay as they are: a merge
     * under way has its rows on the disk for a moment.
     */
    private void awaitRemote(LocalCluster cluster) throws InterruptedException {
        long end = System.nanoTime() + LIMIT_NANOS;
        long since = System.nanoTime();
        long bytes = 0;
        while (remote != null
                && (bytes == 0 || System.nanoTime() - since < REMOTE_SETTLED.toNanos())) {
            if (System.nanoTime() > end) {
                throw new AssertionError("Nothing stays off the disk: " + cluster.metrics());
            }
            Thread.sleep(50);
            long now = cluster.metrics().sum(Names.REMOTE_BYTES);
            if (now != bytes) {
                bytes = now;
                since = System.nanoTime();
            }
        }
    }

    private Configuration flink() {
        Configuration flink = SearchDataflow.flinkSettings();
        flink.set(PipelineOptions.MAX_PARALLELISM, shards);
        FlinkSettings.incrementalState(flink);
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, CHECKPOINT_EVERY);
        flink.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints);
        flink.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 1);
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(10));
        flink.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        if (restore != null) {
            flink.set(StateRecoveryOptions.SAVEPOINT_PATH, restore);
            flink.set(StateRecoveryOptions.RESTORE_MODE, claim);
        }
        return flink;
    }

    private JobSettings settings(int parallelism) {
        return JobSettings.fromJson(
                """
                {"parallelism": %d,
                 "collection": {"dimension": %d, "metric": "l2", "element": "f32",
                                "index": "cluster", "seed": 7, "shards": %d, %s,
                                "recall-target": %s, "encoder": %s, "memory": %s%s},
                 "vectors": {"kind": "file", "path": "script"},
                 "queries": {"kind": "file", "path": "script", "k": 5},
                 "training-sample": %d,
                 "merge-deadline": %d,
                 "rebalance": %s,
                 "reads": %s,
                 "faults": {%s}}
                """
                        .formatted(
                                parallelism,
                                script.dimension(),
                                shards,
                                rowKeys,
                                Oracle.TARGET,
                                encoder,
                                memory == 0 ? "null" : memory,
                                remote == null
                                        ? ""
                                        : ", \"remote\": \"" + remote + "\", \"disk\": 0",
                                SAMPLE,
                                remote == null
                                        ? DataflowSettings.MERGE_DEADLINE_MILLIS
                                        : REMOTE_DEADLINE.toMillis(),
                                rebalance,
                                readable ? "{\"host\": \"127.0.0.1\"}" : "null",
                                fault == null ? "" : '"' + fault + "\": true"));
    }
}
