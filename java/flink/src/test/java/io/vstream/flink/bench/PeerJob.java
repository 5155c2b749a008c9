package io.vstream.flink.bench;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.DecodeFunction;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.job.JobSettings;
import io.vstream.flink.job.LocalCluster;
import io.vstream.flink.kafka.Topics;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.row.Schema;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.ProcessOperator;

/**
 * The job of someone who calls a vector database: the same sources, checks and sink as ours, and
 * between them Flink's asynchronous operators, in order. Queries do not wait for the writes before
 * them, which favours the database.
 */
public final class PeerJob {

    private static final int WRITES_AT_ONCE = 1_000;
    private static final int QUERIES_AT_ONCE = 100;
    private static final long BUFFER_MILLIS = 1;

    private PeerJob() {}

    /** Words: file of the job, system, server, rows per call, rows at the beginning, effort. */
    public static void main(String[] words) throws Exception {
        JobSettings job = JobSettings.fromJson(Files.readString(Path.of(words[0])));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(SearchDataflow.flinkSettings());
        env.setParallelism(job.dataflow().partitions());
        env.setBufferTimeout(BUFFER_MILLIS);
        int dimension = job.dataflow().rules().dimension();
        PeerAddress peer =
                new PeerAddress(words[1], words[2], dimension, Integer.parseInt(words[5]));
        PeerWrites writes =
                new PeerWrites(peer, Integer.parseInt(words[3]), Integer.parseInt(words[4]));
        DataStream<VectorRecord> vectors =
                decode(
                        job,
                        Topics.source(
                                env,
                                job.vectors().kafka(),
                                false,
                                1,
                                Schema.PLAIN,
                                "vector-topic"));
        DataStream<QueryRecord> queries =
                decode(
                                job,
                                Topics.source(
                                        env,
                                        job.queries().kafka(),
                                        true,
                                        10,
                                        Schema.PLAIN,
                                        "query-topic"))
                        .getSideOutput(DecodeFunction.QUERIES);
        DataStream<Answer> none =
                AsyncDataStream.orderedWait(
                                vectors.keyBy(record -> record.id, Types.LONG),
                                writes,
                                1,
                                TimeUnit.DAYS,
                                WRITES_AT_ONCE)
                        .returns(Answer.TYPE);
        DataStream<Answer> answers =
                AsyncDataStream.orderedWait(
                                queries.rebalance(),
                                new PeerQueries(peer),
                                1,
                                TimeUnit.DAYS,
                                QUERIES_AT_ONCE)
                        .returns(Answer.TYPE);
        Topics.sink(answers.union(none), job.results().kafka(), job.dataflow().schema());
        try (LocalCluster cluster = new LocalCluster(1, job.dataflow().partitions())) {
            JobID id = cluster.submit(env, "peer");
            cluster.await(id)
                    .getSerializedThrowable()
                    .ifPresent(
                            e -> {
                                throw new IllegalStateException(e);
                            });
        }
    }

    private static SingleOutputStreamOperator<VectorRecord> decode(
            JobSettings job, DataStream<Incoming> incoming) {
        return incoming.transform(
                "decode",
                VectorRecord.TYPE,
                new ProcessOperator<>(
                        new DecodeFunction(job.dataflow().rules(), 0, job.queries().k())));
    }
}
