package io.vstream.flink.job;

import io.vstream.flink.control.RebalanceSettings;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.ingest.Element;
import io.vstream.flink.ingest.VectorRules;
import io.vstream.flink.kafka.KafkaInput;
import io.vstream.flink.kafka.KafkaOutput;
import io.vstream.flink.place.TrainOperator;
import io.vstream.flink.search.SearchSettings;
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
 * @param parallelism partitions
 * @param collection settings of the collection as JSON, for the native side
 * @param rules what the collection accepts
 * @param seed of every choice that is left to chance
 * @param vectors where vectors come from
 * @param queries where queries come from, or null
 * @param workload of the generator
 * @param results where answers go
 * @param trainingSample vectors to train on
 * @param mergeDeadlineMillis how long merge waits for partial answers
 * @param auditShare share of the queries to audit, 0 to 1
 * @param rebalance when and how ranges change partition
 * @param searching how a partition answers queries
 * @param checkpoint when and where, or null
 * @param stateFolder where engines make private folders, or null
 * @param snapshotFolder receives the engines at the end, or null
 * @param faults defects for tests
 */
public record JobSettings(
        String name,
        int parallelism,
        String collection,
        VectorRules rules,
        long seed,
        Input vectors,
        Input queries,
        Workload workload,
        Results results,
        int trainingSample,
        long mergeDeadlineMillis,
        double auditShare,
        RebalanceSettings rebalance,
        SearchSettings searching,
        Checkpoint checkpoint,
        String stateFolder,
        String snapshotFolder,
        EnumSet<Fault> faults) {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SEARCH_THREADS = 1;

    /**
     * Where records come from.
     *
     * @param kind of the source
     * @param path of the file, or null
     * @param preload rows to insert first; generator only
     * @param limit records after the preload, 0 for no limit; generator only
     * @param k neighbours that queries ask for unless they say otherwise
     * @param timeToLiveMillis event time that rows live for, 0 for ever
     * @param kafka the topic, or null
     */
    public record Input(
            Kind kind,
            String path,
            int preload,
            long limit,
            int k,
            long timeToLiveMillis,
            KafkaInput kafka) {

        /** Kinds of sources. */
        public enum Kind {
            /** A generator over a data file. */
            GENERATOR,
            /** A file of JSON lines. */
            FILE,
            /** A topic. */
            KAFKA,
            /** A stream of the program that builds the dataflow. */
            PROGRAM
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

    /** True if records come from topics, without end. */
    public boolean unbounded() {
        return vectors.kind == Input.Kind.KAFKA;
    }

    /** True if the collection's encoder is one that is trained, without asking the native side. */
    boolean trained() {
        try {
            JsonNode encoder = JSON.readTree(collection).path("encoder");
            return !encoder.path("kind").asText("cells").equals("id");
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("The settings were read before.", e);
        }
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
        JsonNode collection = need(job, "collection");
        boolean queries = present(job.path("queries"));
        int dimension = need(collection, "dimension").asInt();
        return new JobSettings(
                job.path("name").asText("vstream"),
                need(job, "parallelism").asInt(),
                collection.toString(),
                new VectorRules(
                        dimension,
                        need(collection, "metric").asText().equals("cosine"),
                        Element.of(collection.path("element").asText("f32"))),
                collection.path("seed").asLong(42),
                input(need(job, "vectors"), false),
                queries ? input(job.path("queries"), true) : null,
                workload(job.path("workload"), queries),
                results(job.path("results")),
                trainingSample(job.path("training-sample").asInt(20_000), dimension),
                job.path("merge-deadline").asLong(5_000),
                job.path("audit-share").asDouble(0),
                rebalance(job.path("rebalance")),
                searching(job),
                present(job.path("checkpoint"))
                        ? new Checkpoint(
                                need(job.path("checkpoint"), "interval").asLong(),
                                need(job.path("checkpoint"), "path").asText(),
                                job.path("checkpoint").path("timeout").asLong(120_000),
                                job.path("checkpoint").path("tolerable-failures").asInt(10))
                        : null,
                text(job.path("state").path("path")),
                text(job.path("snapshot").path("path")),
                faults(job.path("faults")));
    }

    private static Input input(JsonNode input, boolean queries) {
        Input.Kind kind = Input.Kind.valueOf(need(input, "kind").asText().toUpperCase(Locale.ROOT));
        boolean kafka = kind == Input.Kind.KAFKA;
        boolean file = kind == Input.Kind.FILE || kind == Input.Kind.GENERATOR;
        return new Input(
                kind,
                file ? need(input, "path").asText() : null,
                input.path("preload").asInt(0),
                input.path("limit").asLong(0),
                input.path("k").asInt(10),
                input.path("time-to-live").asLong(0),
                kafka ? KafkaInput.fromJson(input, queries) : null);
    }

    private static int trainingSample(int vectors, int dimension) {
        int most = TrainOperator.sampleMax(dimension);
        if (vectors > most) {
            throw new IllegalArgumentException(
                    "training-sample: "
                            + vectors
                            + " vectors of "
                            + dimension
                            + " elements do not fit into the 2 GiB that a sample may have. Give "
                            + most
                            + " at most.");
        }
        return vectors;
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
        return new RebalanceSettings(
                rebalance.path("policy").asText("none"),
                rebalance.path("interval").asLong(5_000),
                rebalance.path("trigger").asDouble(1.15),
                null);
    }

    private static SearchSettings searching(JsonNode job) {
        JsonNode search = job.path("search");
        boolean shed = search.path("when-full").asText("wait").equals("shed");
        int usual = shed ? SearchSettings.IN_FLIGHT_SHEDDING : SearchSettings.IN_FLIGHT_WAITING;
        return new SearchSettings(
                search.path("threads").asInt(SEARCH_THREADS),
                search.path("in-flight").asInt(usual),
                shed,
                job.path("merge-deadline").asLong(5_000));
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
