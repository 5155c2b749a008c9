package io.vstream.flink.job;

import io.vstream.flink.control.RebalanceSettings;
import io.vstream.flink.dataflow.DataflowSettings;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.kafka.KafkaInput;
import io.vstream.flink.kafka.KafkaOutput;
import io.vstream.flink.row.Schema;
import io.vstream.flink.search.ReadSettings;
import io.vstream.flink.text.TextSettings;
import java.util.EnumSet;
import java.util.Locale;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * One job, as the {@code vstream} command wrote it: validated, every key present, durations in
 * milliseconds, paths absolute. The schema and its checks are in Rust; here it is only read.
 *
 * @param name of the job
 * @param dataflow settings of the search
 * @param seed of every choice that is left to chance
 * @param vectors where vectors come from
 * @param queries where queries come from, or null
 * @param workload of the generator
 * @param results where answers go
 * @param checkpoint when and where, or null
 * @param snapshotFolder receives the engines at the end, or null
 * @param texts how texts become vectors, or null where records come with vectors
 */
public record JobSettings(
        String name,
        DataflowSettings dataflow,
        long seed,
        Input vectors,
        Input queries,
        Workload workload,
        Results results,
        Checkpoint checkpoint,
        String snapshotFolder,
        TextSettings texts) {

    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * Where records come from.
     *
     * @param kind of the source
     * @param path of the file, or null
     * @param preload rows to insert first; generator only
     * @param limit records after the preload, 0 for no limit; generator only
     * @param k neighbours that queries ask for unless they say otherwise
     * @param kafka the topic, or null
     */
    public record Input(Kind kind, String path, int preload, long limit, int k, KafkaInput kafka) {

        /** Kinds of sources. */
        public enum Kind {
            /** A generator over a data file. */
            GENERATOR,
            /** A file of JSON lines. */
            FILE,
            /** A topic. */
            KAFKA
        }

        /** True for a generator. */
        public boolean generator() {
            return kind == Kind.GENERATOR;
        }
    }

    /**
     * The mix that a generator makes.
     *
     * @param queries share of queries
     * @param inserts share of inserts
     * @param deletes share of deletes
     * @param rate records per second, 0 for as fast as they are taken
     * @param durationMillis length of the mix, 0 for no end
     * @param warmUpMillis beginning of the mix that is not measured
     */
    public record Workload(
            int queries,
            int inserts,
            int deletes,
            long rate,
            long durationMillis,
            long warmUpMillis) {}

    /**
     * Where answers go.
     *
     * @param kind {@code blackhole}, {@code console}, {@code file} or {@code kafka}
     * @param path of the file, or null
     * @param kafka the topic, or null
     */
    public record Results(String kind, String path, KafkaOutput kafka) {}

    /**
     * Checkpoints.
     *
     * @param intervalMillis between two
     * @param path of the folder that holds them, or its address on another file system
     * @param timeoutMillis after which one is given up
     * @param tolerableFailures in a row, before the job fails
     */
    public record Checkpoint(
            long intervalMillis, String path, long timeoutMillis, int tolerableFailures) {}

    /** Subtasks of the widest step. */
    int slots() {
        int partitions = dataflow.partitions();
        return texts == null ? partitions : Math.max(partitions, texts.parallelism());
    }

    /** True if records come from topics, without end. */
    public boolean unbounded() {
        return vectors.kind == Input.Kind.KAFKA;
    }

    /**
     * Reads a normalised job.
     *
     * @throws IllegalArgumentException with a sentence that says what is wrong
     */
    public static JobSettings fromJson(String json) {
        JsonNode job;
        try {
            job = JSON.readTree(json);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(
                    "The job is not JSON: " + e.getOriginalMessage() + ".", e);
        }
        boolean asked = present(job.path("queries"));
        TextSettings texts =
                present(job.path("documents"))
                        ? TextSettings.fromJson(job.path("documents"), need(job, "embedding"))
                        : null;
        Schema rows = Schema.fromJson(job.path("collection"));
        Input queries = asked ? input(job.path("queries"), true, rows) : null;
        String snapshot = text(job.path("snapshot").path("path"));
        return new JobSettings(
                job.path("name").asText("vstream"),
                dataflow(job, queries, snapshot),
                job.path("collection").path("seed").asLong(42),
                input(need(job, "vectors"), false, rows),
                queries,
                workload(job.path("workload"), asked),
                results(job.path("results")),
                present(job.path("checkpoint"))
                        ? new Checkpoint(
                                need(job.path("checkpoint"), "interval").asLong(),
                                need(job.path("checkpoint"), "path").asText(),
                                job.path("checkpoint").path("timeout").asLong(120_000),
                                job.path("checkpoint").path("tolerable-failures").asInt(10))
                        : null,
                snapshot,
                texts);
    }

    private static DataflowSettings dataflow(JsonNode job, Input queries, String snapshot) {
        String collection = need(job, "collection").toString();
        JsonNode search = job.path("search");
        return DataflowSettings.of(collection, need(job, "parallelism").asInt())
                .k(queries == null ? 1 : queries.k())
                .timeToLiveMillis(need(job, "vectors").path("time-to-live").asLong(0))
                .trainingSample(job.path("training-sample").asInt(DataflowSettings.TRAINING_SAMPLE))
                .mergeDeadlineMillis(
                        job.path("merge-deadline").asLong(DataflowSettings.MERGE_DEADLINE_MILLIS))
                .auditShare(job.path("audit-share").asDouble(0))
                .rebalance(rebalance(job.path("rebalance")))
                .searchThreads(search.path("threads").asInt(DataflowSettings.SEARCH_THREADS))
                .searchesInFlight(search.path("in-flight").asInt(0))
                .shed(search.path("when-full").asText("wait").equals("shed"))
                .reads(reads(job.path("reads")))
                .stateFolder(text(job.path("state").path("path")))
                .snapshotFolder(FinalSnapshot.staging(snapshot))
                .faults(faults(job.path("faults")))
                .build();
    }

    private static Input input(JsonNode input, boolean queries, Schema rows) {
        Input.Kind kind = Input.Kind.valueOf(need(input, "kind").asText().toUpperCase(Locale.ROOT));
        boolean kafka = kind == Input.Kind.KAFKA;
        boolean file = kind == Input.Kind.FILE || kind == Input.Kind.GENERATOR;
        return new Input(
                kind,
                file ? need(input, "path").asText() : null,
                input.path("preload").asInt(0),
                input.path("limit").asLong(0),
                input.path("k").asInt(DataflowSettings.K),
                kafka ? KafkaInput.fromJson(input, queries, rows) : null);
    }

    private static Results results(JsonNode results) {
        String kind = results.path("kind").asText("blackhole");
        boolean kafka = kind.equals("kafka");
        return new Results(
                kind, text(results.path("path")), kafka ? KafkaOutput.fromJson(results) : null);
    }

    private static Workload workload(JsonNode workload, boolean queries) {
        JsonNode ratio = workload.path("ratio");
        return new Workload(
                queries ? ratio.path("queries").asInt(1) : 0,
                ratio.path("inserts").asInt(3),
                ratio.path("deletes").asInt(1),
                workload.path("rate").asLong(0),
                workload.path("duration").asLong(0),
                workload.path("warm-up").asLong(0));
    }

    private static RebalanceSettings rebalance(JsonNode rebalance) {
        RebalanceSettings usual = RebalanceSettings.DEFAULT;
        return new RebalanceSettings(
                rebalance.path("policy").asText(usual.policy()),
                rebalance.path("interval").asLong(usual.intervalMillis()),
                rebalance.path("trigger").asDouble(usual.trigger()),
                usual.folder());
    }

    private static ReadSettings reads(JsonNode reads) {
        return present(reads)
                ? new ReadSettings(
                        need(reads, "host").asText(),
                        text(reads.path("key-file")),
                        text(reads.path("keystore")),
                        text(reads.path("password-file")),
                        reads.path("connections").asInt(ReadSettings.CONNECTIONS),
                        null)
                : null;
    }

    private static EnumSet<Fault> faults(JsonNode faults) {
        EnumSet<Fault> on = EnumSet.noneOf(Fault.class);
        faults.fieldNames()
                .forEachRemaining(
                        name -> {
                            if (faults.path(name).asBoolean()) {
                                on.add(Fault.of(name));
                            }
                        });
        return on;
    }

    private static JsonNode need(JsonNode parent, String key) {
        JsonNode child = parent.path(key);
        if (!present(child)) {
            throw new IllegalArgumentException(
                    "The job has no '" + key + "'; let 'vstream run' write the file.");
        }
        return child;
    }

    private static boolean present(JsonNode node) {
        return !node.isMissingNode() && !node.isNull();
    }

    private static String text(JsonNode node) {
        return present(node) ? node.asText() : null;
    }
}
