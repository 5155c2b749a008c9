package io.vstream.flink.dataflow;

import io.vstream.flink.control.RebalanceSettings;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.ingest.Element;
import io.vstream.flink.ingest.VectorRules;
import io.vstream.flink.place.TrainOperator;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.row.Schema;
import io.vstream.flink.search.ReadSettings;
import io.vstream.flink.search.SearchSettings;
import io.vstream.nativecore.NativeLibrary;
import io.vstream.nativecore.NativeRouter;
import java.util.EnumSet;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Settings of one search and its steps. They say nothing about sources, sinks or runners.
 *
 * @param collection settings of the collection as JSON, for the native side
 * @param rules what the collection accepts
 * @param partitions of the collection, 1 to its number of shards
 * @param k neighbours that queries ask for unless they say otherwise
 * @param timeToLiveMillis event time that rows live for, 0 for ever
 * @param trainingSample vectors to train on
 * @param mergeDeadlineMillis how long merge waits for partial answers
 * @param auditShare share of the queries to audit, 0 to 1
 * @param rebalance when and how ranges change partition
 * @param search how a partition answers queries
 * @param reads how it answers questions from outside the job; null if it does not
 * @param stateFolder where engines make private folders; null for the task managers' own
 * @param snapshotFolder receives a folder per partition at the end of the streams; null for none
 * @param faults defects for tests
 */
public record DataflowSettings(
        String collection,
        VectorRules rules,
        int partitions,
        int k,
        long timeToLiveMillis,
        int trainingSample,
        long mergeDeadlineMillis,
        double auditShare,
        RebalanceSettings rebalance,
        SearchSettings search,
        ReadSettings reads,
        String stateFolder,
        String snapshotFolder,
        EnumSet<Fault> faults) {

    /** Neighbours of a query that does not say. */
    public static final int K = 10;

    /** Vectors to train on, unless set. */
    public static final int TRAINING_SAMPLE = 20_000;

    /** How long merge waits for partial answers, unless set. */
    public static final long MERGE_DEADLINE_MILLIS = 5_000;

    /** Threads of a partition that search, unless set. */
    public static final int SEARCH_THREADS = 1;

    /** Encoder of a collection that names none. */
    private static final String ENCODER = "cells";

    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * Begins with the defaults.
     *
     * @param collection settings of the collection as JSON
     * @param partitions of the collection
     */
    public static Builder of(String collection, int partitions) {
        return new Builder(collection, partitions);
    }

    /** True if the encoder must see a sample before rows can be placed. */
    public boolean needsTraining() {
        if (grouped()) {
            return false;
        }
        if (!NativeLibrary.available()) {
            return !tree(collection).path("encoder").path("kind").asText(ENCODER).equals("id");
        }
        try (NativeRouter router = NativeRouter.unplaced(collection)) {
            return !router.placed();
        }
    }

    /** True if rows are in isolated groups. Cost: reads the settings. */
    public boolean grouped() {
        return schema().grouped();
    }

    /** Ties the collection's shards to Flink's key groups. Cost: reads the settings. */
    public ShardKeys keys() {
        return ShardKeys.ofCollection(collection);
    }

    /** Rows from which an isolated group is spread. Cost: reads the settings. */
    public long spreadRows() {
        // The native side has filled it in, unless it cannot be loaded here.
        return tree(collection).path("groups").path("spread-rows").asLong(Long.MAX_VALUE);
    }

    /** What the rows of the collection carry. Cost: reads the settings. */
    public Schema schema() {
        return Schema.fromJson(tree(collection));
    }

    private static JsonNode tree(String collection) {
        try {
            return JSON.readTree(collection);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(
                    "The settings of the collection are not JSON: " + e.getOriginalMessage(), e);
        }
    }

    /** Collects settings and checks them once; what is not set keeps its default. */
    public static final class Builder {

        private final String collection;
        private final int partitions;
        private int k = K;
        private long timeToLiveMillis;
        private int trainingSample = TRAINING_SAMPLE;
        private long mergeDeadlineMillis = MERGE_DEADLINE_MILLIS;
        private double auditShare;
        private RebalanceSettings rebalance = RebalanceSettings.DEFAULT;
        private int searchThreads = SEARCH_THREADS;
        private int searchesInFlight;
        private boolean shed;
        private ReadSettings reads;
        private String stateFolder;
        private String snapshotFolder;
        private EnumSet<Fault> faults = EnumSet.noneOf(Fault.class);

        private Builder(String collection, int partitions) {
            this.collection = collection;
            this.partitions = partitions;
        }

        /** Neighbours that queries ask for unless they say otherwise. */
        public Builder k(int rows) {
            k = rows;
            return this;
        }

        /** Event time that rows live for, 0 for ever. */
        public Builder timeToLiveMillis(long millis) {
            timeToLiveMillis = millis;
            return this;
        }

        /** Vectors to train on. */
        public Builder trainingSample(int vectors) {
            trainingSample = vectors;
            return this;
        }

        /** How long merge waits for partial answers. */
        public Builder mergeDeadlineMillis(long millis) {
            mergeDeadlineMillis = millis;
            return this;
        }

        /** Share of the queries to audit, 0 to 1. */
        public Builder auditShare(double share) {
            auditShare = share;
            return this;
        }

        /** When and how ranges change partition. */
        public Builder rebalance(RebalanceSettings settings) {
            rebalance = settings;
            return this;
        }

        /** Threads of each partition that search, 0 to search in the task. */
        public Builder searchThreads(int count) {
            searchThreads = count;
            return this;
        }

        /** Searches of each partition under way at most; 0 for the default of {@link #shed}. */
        public Builder searchesInFlight(int count) {
            searchesInFlight = count;
            return this;
        }

        /** Whether a query without a place is answered as partial; else the task waits. */
        public Builder shed(boolean whenFull) {
            shed = whenFull;
            return this;
        }

        /** How partitions answer questions from outside the job; null if they do not. */
        public Builder reads(ReadSettings settings) {
            reads = settings;
            return this;
        }

        /** Where engines make private folders; null for the task managers' own. */
        public Builder stateFolder(String path) {
            stateFolder = path;
            return this;
        }

        /** Receives a folder per partition at the end of the streams; null for none. */
        public Builder snapshotFolder(String path) {
            snapshotFolder = path;
            return this;
        }

        /** Defects for tests. */
        public Builder faults(EnumSet<Fault> defects) {
            faults = defects;
            return this;
        }

        /**
         * The settings.
         *
         * @throws IllegalArgumentException with a sentence that says what is wrong
         */
        public DataflowSettings build() {
            checkClosed(tree(collection));
            checkPartitions(partitions, ShardKeys.ofCollection(collection).shards());
            checkGroups(Schema.fromJson(tree(collection)));
            VectorRules rules = rules(tree(collection));
            checkSample(trainingSample, rules.dimension());
            int usual = shed ? SearchSettings.IN_FLIGHT_SHEDDING : SearchSettings.IN_FLIGHT_WAITING;
            return new DataflowSettings(
                    collection,
                    rules,
                    partitions,
                    k,
                    timeToLiveMillis,
                    trainingSample,
                    mergeDeadlineMillis,
                    auditShare,
                    rebalance,
                    new SearchSettings(
                            searchThreads,
                            searchesInFlight > 0 ? searchesInFlight : usual,
                            shed,
                            mergeDeadlineMillis),
                    reads,
                    stateFolder,
                    snapshotFolder,
                    faults);
        }

        private static void checkPartitions(int partitions, int shards) {
            if (partitions < 1 || partitions > shards) {
                throw new IllegalArgumentException(
                        "partitions: "
                                + partitions
                                + " is out of range. Give 1 to "
                                + shards
                                + ", the number of the collection's shards; it is chosen, up to "
                                + ShardKeys.MAX
                                + ", when the collection is made.");
            }
        }

        private static VectorRules rules(JsonNode collection) {
            return new VectorRules(
                    need(collection, "dimension").asInt(),
                    need(collection, "metric").asText().equals("cosine"),
                    Element.of(collection.path("element").asText("f32")));
        }

        private static JsonNode need(JsonNode collection, String key) {
            if (!collection.hasNonNull(key)) {
                throw new IllegalArgumentException("The collection has no '" + key + "'; set it.");
            }
            return collection.path(key);
        }

        /** Partitions would number the attributes that they meet each in its own way. */
        private static void checkClosed(JsonNode collection) {
            if (collection.path("open").asBoolean()) {
                throw new IllegalArgumentException(
                        "collection.open: the partitions of a job cannot agree about attributes"
                                + " that rows bring with them. List them under"
                                + " collection.attributes, and remove this key.");
            }
        }

        private void checkGroups(Schema schema) {
            if (!schema.grouped()) {
                return;
            }
            if (timeToLiveMillis > 0) {
                throw new IllegalArgumentException(
                        "collection.groups: rows of isolated groups live until they are deleted, or"
                                + " their group is dropped. Remove the time to live.");
            }
            if (snapshotFolder != null) {
                throw new IllegalArgumentException(
                        "collection.groups: a snapshot holds no isolated groups; checkpoints and"
                                + " savepoints do. Remove the folder for a snapshot at the end.");
            }
            // An isolated group stays in its shard, and every answer is exact.
            rebalance = RebalanceSettings.DEFAULT;
            auditShare = 0;
        }

        private static void checkSample(int vectors, int dimension) {
            int largest = TrainOperator.sampleMax(dimension);
            if (vectors > largest) {
                throw new IllegalArgumentException(
                        "training-sample: "
                                + vectors
                                + " vectors of "
                                + dimension
                                + " elements do not fit into the 2 GiB that a sample may have. Give"
                                + " "
                                + largest
                                + " at most.");
            }
        }
    }
}
