package io.vstream.flink.job;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.kafka.BrokerCheck;
import io.vstream.flink.kafka.Topics;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.row.Schema;
import io.vstream.flink.source.DatasetFile;
import io.vstream.flink.source.GeneratorScript;
import io.vstream.flink.source.LineScript;
import io.vstream.flink.source.Mix;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSource;
import io.vstream.flink.source.SourceOffsetsOperator;
import io.vstream.flink.text.TextDataflow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Makes the sources that a job's settings ask for. */
public final class Sources {

    private static final long NANOS_PER_MILLI = TimeUnit.MILLISECONDS.toNanos(1);

    private Sources() {}

    /**
     * Adds the sources of a job.
     *
     * @param gate name of the gate that they obey
     * @param needsTraining true if the preload should pause after the sample
     * @throws IllegalArgumentException with a sentence if a file is missing or does not fit
     */
    public static SearchDataflow.Inputs add(
            StreamExecutionEnvironment env, JobSettings job, String gate, boolean needsTraining) {
        SearchDataflow.Inputs read = read(env, job, gate, needsTraining);
        if (job.texts() == null) {
            return read;
        }
        Schema rows = job.dataflow().schema();
        int dimension = job.dataflow().rules().dimension();
        TextDataflow.check(job.texts(), dimension);
        return new SearchDataflow.Inputs(
                TextDataflow.documents(
                        read.vectors(), job.texts(), rows, dimension, job.dataflow().partitions()),
                read.queries() == null
                        ? null
                        : TextDataflow.questions(
                                read.queries(), job.texts(), rows, dimension, job.queries().k()));
    }

    private static SearchDataflow.Inputs read(
            StreamExecutionEnvironment env, JobSettings job, String gate, boolean needsTraining) {
        if (job.vectors().generator()) {
            Script script = new GeneratorScript(generator(job, needsTraining));
            return new SearchDataflow.Inputs(source(env, script, gate, "generator"), null);
        }
        if (job.unbounded()) {
            return topics(env, job);
        }
        readable(job.vectors().path());
        DataStream<Incoming> vectors =
                source(
                        env,
                        new LineScript(
                                job.vectors().path(), false, job.dataflow().schema().payloadMax()),
                        gate,
                        "vector-lines");
        if (job.queries() == null) {
            return new SearchDataflow.Inputs(vectors, null);
        }
        readable(job.queries().path());
        Script script = new LineScript(job.queries().path(), true, 0);
        return new SearchDataflow.Inputs(vectors, source(env, script, gate, "query-lines"));
    }

    /**
     * Asks the brokers of a job, if it has any, whether its topics can be used.
     *
     * @throws IllegalArgumentException with a sentence that says what to change
     */
    public static void checkBrokers(JobSettings job) {
        if (job.unbounded()) {
            BrokerCheck.check("vectors", job.vectors().kafka());
        }
        if (job.queries() != null && job.queries().kafka() != null) {
            BrokerCheck.check("queries", job.queries().kafka());
        }
        if (job.results().kafka() != null) {
            BrokerCheck.check("results", job.results().kafka());
        }
    }

    private static SearchDataflow.Inputs topics(StreamExecutionEnvironment env, JobSettings job) {
        boolean embeds = job.texts() != null;
        Schema plain = job.dataflow().schema();
        Schema rows = embeds ? plain.ofTexts(job.texts().textKey()) : plain;
        ShardKeys keys = job.dataflow().keys();
        DataStream<Incoming> records =
                Topics.source(env, job.vectors().kafka(), false, 1, rows, "vector-topic")
                        .setParallelism(job.dataflow().partitions());
        DataStream<Incoming> vectors =
                embeds
                        ? records
                        : records.transform(
                                        "mark-offsets",
                                        Incoming.TYPE,
                                        new SourceOffsetsOperator(
                                                keys, PartitionCount.ofChannels(keys)))
                                .setParallelism(records.getParallelism())
                                .uid("mark-offsets");
        if (job.queries() == null) {
            return new SearchDataflow.Inputs(vectors, null);
        }
        JobSettings.Input queries = job.queries();
        return new SearchDataflow.Inputs(
                vectors,
                Topics.source(env, queries.kafka(), true, queries.k(), rows, "query-topic")
                        .setParallelism(job.dataflow().partitions()));
    }

    private static DataStream<Incoming> source(
            StreamExecutionEnvironment env, Script script, String gate, String name) {
        return env.fromSource(
                        new ScriptSource(script, gate),
                        WatermarkStrategy.noWatermarks(),
                        name,
                        Incoming.TYPE)
                .setParallelism(1)
                .uid(name);
    }

    private static GeneratorScript.Settings generator(JobSettings job, boolean needsTraining) {
        JobSettings.Input vectors = job.vectors();
        JobSettings.Workload workload = job.workload();
        int rows = rows(vectors.path(), job.dataflow().rules().dimension());
        if (vectors.preload() > rows) {
            throw new IllegalArgumentException(
                    "vectors.preload is "
                            + vectors.preload()
                            + " but "
                            + vectors.path()
                            + " has only "
                            + rows
                            + " rows; lower it.");
        }
        if (job.queries() != null) {
            rows(job.queries().path(), job.dataflow().rules().dimension());
        }
        boolean pause = needsTraining && job.dataflow().trainingSample() < vectors.preload();
        return new GeneratorScript.Settings(
                vectors.path(),
                job.queries() == null ? null : job.queries().path(),
                vectors.preload(),
                pause ? job.dataflow().trainingSample() : -1,
                vectors.limit(),
                new Mix(workload.queries(), workload.inserts(), workload.deletes()),
                workload.rate(),
                workload.durationMillis() * NANOS_PER_MILLI,
                workload.warmUpMillis() * NANOS_PER_MILLI,
                job.queries() == null ? 1 : job.queries().k(),
                job.seed());
    }

    private static int rows(String path, int dimension) {
        readable(path);
        try (DatasetFile file = DatasetFile.open(Path.of(path))) {
            if (file.dimension() != dimension) {
                throw new IllegalArgumentException(
                        path
                                + " holds vectors of dimension "
                                + file.dimension()
                                + " and collection.dimension is "
                                + dimension
                                + "; make them equal.");
            }
            return file.rows();
        } catch (IOException e) {
            throw new IllegalArgumentException(e.getMessage(), e);
        }
    }

    private static void readable(String path) {
        if (!Files.isReadable(Path.of(path))) {
            throw new IllegalArgumentException(
                    "The file " + path + " is missing or cannot be read; name another one.");
        }
    }
}
