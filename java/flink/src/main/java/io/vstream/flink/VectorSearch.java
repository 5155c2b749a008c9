package io.vstream.flink;

import io.vstream.flink.dataflow.DataflowSettings;
import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.VectorRules;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.row.Schema;
import io.vstream.flink.search.ReadSettings;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.NativeLibrary;
import io.vstream.nativecore.NativeSettings;
import java.time.Duration;
import java.util.Objects;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Searches a stream of vectors, as part of a dataflow.
 *
 * <pre>{@code
 * StreamExecutionEnvironment env =
 *         StreamExecutionEnvironment.getExecutionEnvironment(VectorSearch.flinkSettings());
 * VectorSearch search =
 *         VectorSearch.collection(128, Metric.COSINE)
 *                 .vectors(changes)
 *                 .queries(questions)
 *                 .k(10)
 *                 .build();
 * search.results().sinkTo(...);
 * env.execute();
 * }</pre>
 *
 * <p>An answer comes from the rows that were applied when its query arrived; between the two
 * streams there is no other order. The watermark of an answer, if the stream of vectors has
 * watermarks, says how far that stream was. Checkpoints must be aligned and exactly once, and each
 * file must stay a file of its own; everything else about them is up to the environment, whose
 * settings stay as they are. A program with several searches gives each a name. While some subtasks
 * of a bounded source have ended and others have not, no checkpoint completes: Flink cannot keep
 * union state of a step that has ended in part.
 */
public final class VectorSearch {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final DataStream<Answer> results;
    private final DataStream<BadRecord> refused;

    private VectorSearch(SearchDataflow.Outputs outputs) {
        results = outputs.answers();
        refused = outputs.bad();
    }

    /** Settings to make an environment with: no generic types, objects reused. */
    public static Configuration flinkSettings() {
        Configuration settings = SearchDataflow.flinkSettings();
        // A program may have watermarks of its own.
        settings.removeConfig(PipelineOptions.AUTO_WATERMARK_INTERVAL);
        // The steps of a search have their own.
        settings.removeConfig(PipelineOptions.MAX_PARALLELISM);
        return settings;
    }

    /**
     * Begins with a collection of f32 vectors.
     *
     * @param dimension elements of every vector, 1 to 4,096
     * @param metric by which rows are near
     */
    public static Builder collection(int dimension, Metric metric) {
        ObjectNode settings = JSON.createObjectNode();
        settings.put("dimension", dimension).put("metric", metric.key());
        settings.putObject("encoder").put("kind", "cells");
        return collection(settings.toString());
    }

    /**
     * Begins with a collection in all its settings.
     *
     * @param settings the section {@code collection} of a job file, as JSON
     * @throws IllegalArgumentException with a sentence for everything that cannot be used; on a
     *     platform without a native library the job fails with it when it starts
     */
    public static Builder collection(String settings) {
        return new Builder(normalized(settings));
    }

    /**
     * The settings in full, checked. Where there is no native library, they stay as they are, and
     * the tasks check them when they start.
     */
    private static String normalized(String collection) {
        try {
            return NativeLibrary.available() ? NativeSettings.normalize(collection) : collection;
        } catch (EngineException e) {
            throw new IllegalArgumentException(e.getMessage(), e);
        }
    }

    private static ObjectNode tree(String collection) {
        try {
            return (ObjectNode) JSON.readTree(collection);
        } catch (JsonProcessingException | ClassCastException e) {
            throw new IllegalArgumentException(
                    "The settings of the collection are no JSON object: " + e.getMessage(), e);
        }
    }

    /** One answer per accepted query. */
    public DataStream<Answer> results() {
        return results;
    }

    /** Changes and queries that broke a rule of the collection. */
    public DataStream<BadRecord> refused() {
        return refused;
    }

    /** Collects what a search needs; see {@link VectorSearch}. */
    public static final class Builder {

        private static final String NAME = "[a-z][a-z0-9-]{0,39}";

        private String collection;
        private String name = "";
        private DataStream<VectorChange> vectors;
        private DataStream<VectorQuery> queries;
        private int k = DataflowSettings.K;
        private int partitions;
        private int trainingSample = DataflowSettings.TRAINING_SAMPLE;
        private int searchThreads = DataflowSettings.SEARCH_THREADS;
        private int searchesInFlight;
        private double auditShare;
        private boolean shed = true;
        private ReadSettings reads;
        private Duration deadline = Duration.ofMillis(DataflowSettings.MERGE_DEADLINE_MILLIS);
        private Duration timeToLive = Duration.ZERO;

        private Builder(String collection) {
            this.collection = collection;
        }

        /**
         * Tells this search from others in the same program; the uids of its steps begin with it. A
         * savepoint is restored under the name that it was taken with. None if not set.
         *
         * @param search 1 to 40 small letters, digits and hyphens, a letter first
         */
        public Builder name(String search) {
            if (!search.matches(NAME)) {
                throw new IllegalArgumentException(
                        "name: '"
                                + search
                                + "' is no name of a search. Give a small letter and then small"
                                + " letters, digits and hyphens, 40 in all at most.");
            }
            name = search;
            return this;
        }

        /** The rows: upserts, updates of what they carry, and deletes. */
        public Builder vectors(DataStream<VectorChange> stream) {
            vectors = Objects.requireNonNull(stream);
            return this;
        }

        /** The questions. */
        public Builder queries(DataStream<VectorQuery> stream) {
            queries = Objects.requireNonNull(stream);
            return this;
        }

        /** Rows per answer where a query does not say, 1 to 1,000; 10 if not set. */
        public Builder k(int rows) {
            k = within("k", rows, VectorRules.K_MAX);
            return this;
        }

        /**
         * Partitions of the collection, 1 to the number of its shards; the environment's
         * parallelism if not set.
         */
        public Builder partitions(int count) {
            partitions = within("partitions", count, ShardKeys.MAX);
            return this;
        }

        /**
         * Shards of the collection, which its partitions share out among them: the largest
         * parallelism that it can ever have. The number never changes, and a checkpoint of another
         * one is refused. 128 if not set.
         *
         * @param count a power of two from 128 to 4,096
         */
        public Builder shards(int count) {
            int checked = ShardKeys.of(count).shards();
            collection = normalized(tree(collection).put("shards", checked).toString());
            return this;
        }

        /**
         * Native memory of each partition for its newest rows and for what it reads of others,
         * which then lie on the task manager's local disk; without a limit all rows are in memory.
         *
         * @param bytes 64 KiB or more
         */
        public Builder memory(long bytes) {
            collection = normalized(tree(collection).put("memory", bytes).toString());
            return this;
        }

        /**
         * Native memory of each partition for the codes of rows on the local disk: those that are
         * asked for most are in memory; without a limit all are.
         *
         * @param bytes 0 or more
         */
        public Builder codeMemory(long bytes) {
            collection = normalized(tree(collection).put("code-memory", bytes).toString());
            return this;
        }

        /**
         * Lets the rows that queries ask for least lie in a store alone, which all partitions use
         * together; without it all rows lie on the task managers. Comes after {@link #memory}.
         *
         * @param address {@code s3://bucket/folder}, or a folder that all task managers see
         * @param diskBytes of each partition that stay on its local disk, 0 or more
         */
        public Builder remote(String address, long diskBytes) {
            collection =
                    normalized(
                            tree(collection)
                                    .put("remote", address)
                                    .put("disk", diskBytes)
                                    .toString());
            return this;
        }

        /** First vectors, from which the placement is learned; 20,000 if not set. */
        public Builder trainingSample(int count) {
            trainingSample = within("trainingSample", count, 10_000_000);
            return this;
        }

        /**
         * Threads of each partition that search beside its writer, and as many again for exact
         * queries and audits; 1 if not set.
         *
         * @param count 1 to 64
         */
        public Builder searchThreads(int count) {
            searchThreads = within("searchThreads", count, 64);
            return this;
        }

        /**
         * Searches of each partition under way at most: 256 if not set, or 32 with {@link
         * #waitWhenFull}. Exact ones are counted apart, and there are at most 8 for each of {@link
         * #searchThreads}, since a checkpoint waits for them. A query that finds no place is
         * answered at once, as {@code partial}, so that writes go on.
         *
         * @param count 1 to 4,096
         */
        public Builder searchesInFlight(int count) {
            searchesInFlight = within("searchesInFlight", count, 4_096);
            return this;
        }

        /**
         * Makes a query that finds no place wait, and everything upstream with it, instead of
         * answering it as {@code partial}: for streams that end and whose sources can wait.
         */
        public Builder waitWhenFull() {
            shed = false;
            return this;
        }

        /**
         * Lets readers outside the job ask its partitions, on this machine alone: see {@link
         * io.vstream.flink.ask.JobReader}. Where partitions answer is published in the folder of
         * the checkpoints.
         */
        public Builder reads() {
            return reads("127.0.0.1", null, null, null);
        }

        /**
         * Lets readers on other machines ask, with a key and TLS. The files are on every machine of
         * the job.
         *
         * @param host address that each partition listens at, at a free port; 0.0.0.0 for all
         * @param keyFile its first line is the key that readers must know
         * @param keystore PKCS#12 file with the certificate
         * @param passwordFile its first line is the password of the keystore
         */
        public Builder reads(String host, String keyFile, String keystore, String passwordFile) {
            reads =
                    new ReadSettings(
                            host, keyFile, keystore, passwordFile, ReadSettings.CONNECTIONS, null);
            return this;
        }

        /** Share of the queries that are also answered exactly, to measure recall; 0 if not set. */
        public Builder auditShare(double share) {
            if (!(share >= 0 && share <= 1)) {
                throw new IllegalArgumentException(
                        "auditShare: " + share + " is out of range. Give 0 to 1.");
            }
            auditShare = share;
            return this;
        }

        /** How long an answer waits for slow partitions before it is partial; 5 s if not set. */
        public Builder deadline(Duration limit) {
            within("deadline in milliseconds", limit.toMillis(), 600_000);
            deadline = limit;
            return this;
        }

        /**
         * How long a row lives: it is deleted when the watermark of the vectors has reached its
         * event time plus this. Vectors without an event time are refused then. For ever if not
         * set. The setting {@code deletes} of the collection becomes {@code oldest-first}: what
         * lies in segments is dropped by whole files.
         */
        public Builder timeToLive(Duration life) {
            if (life.toMillis() < 1) {
                throw new IllegalArgumentException(
                        "The time to live is " + life + "; set at least a millisecond.");
            }
            timeToLive = life;
            collection = tree(collection).put("deletes", "oldest-first").toString();
            return this;
        }

        /**
         * Adds the search to the dataflow of its streams.
         *
         * @throws IllegalStateException if a stream is missing
         * @throws IllegalArgumentException if the environment's checkpoints are unaligned, at least
         *     once or merged into shared files, if it runs in batch mode, or if the program already
         *     has a step with a uid of this search
         */
        public VectorSearch build() {
            if (vectors == null || queries == null) {
                throw new IllegalStateException(
                        "A search needs both streams: call vectors(...) and queries(...) before"
                                + " build().");
            }
            StreamExecutionEnvironment env = vectors.getExecutionEnvironment();
            DataflowSettings dataflow =
                    settings(partitions > 0 ? partitions : env.getParallelism());
            SearchDataflow.Inputs inputs =
                    new SearchDataflow.Inputs(changes(dataflow.schema()), questions(dataflow.k()));
            return new VectorSearch(SearchDataflow.add(env, dataflow, inputs, name));
        }

        private DataStream<Incoming> changes(Schema schema) {
            return vectors.map(new ChangeReader(schema))
                    .returns(Incoming.TYPE)
                    .setParallelism(vectors.getParallelism())
                    .name(step("changes"))
                    .uid(step("changes"));
        }

        private DataStream<Incoming> questions(int usualK) {
            return queries.map(query -> query.asIncoming(usualK))
                    .returns(Incoming.TYPE)
                    .setParallelism(queries.getParallelism())
                    .name(step("questions"))
                    .uid(step("questions"));
        }

        private String step(String usual) {
            return name.isEmpty() ? usual : name + "-" + usual;
        }

        DataflowSettings settings(int parallelism) {
            return DataflowSettings.of(tree(collection).toString(), parallelism)
                    .k(k)
                    .timeToLiveMillis(timeToLive.toMillis())
                    .trainingSample(trainingSample)
                    .mergeDeadlineMillis(deadline.toMillis())
                    .auditShare(auditShare)
                    .searchThreads(searchThreads)
                    .searchesInFlight(searchesInFlight)
                    .shed(shed)
                    .reads(reads)
                    .build();
        }

        private static int within(String name, long value, int max) {
            if (value < 1 || value > max) {
                throw new IllegalArgumentException(
                        name + ": " + value + " is out of range. Give 1 to " + max + ".");
            }
            return (int) value;
        }
    }
}
