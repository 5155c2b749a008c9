package io.vstream.flink.job;

import io.vstream.flink.balance.BalanceFactory;
import io.vstream.flink.balance.BalanceSettings;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Decode;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.kafka.Topics;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.Merge;
import io.vstream.flink.place.Place;
import io.vstream.flink.place.Trainer;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.QueryCopy;
import io.vstream.flink.route.QueryRouter;
import io.vstream.flink.route.RouteEvent;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.flink.search.SearchFactory;
import io.vstream.flink.search.SearchSettings;
import io.vstream.flink.sink.AnswerConsole;
import io.vstream.flink.sink.AnswerFile;
import io.vstream.flink.sink.Measure;
import io.vstream.nativecore.NativeRouter;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.ProcessOperator;

/**
 * The dataflow of a job.
 *
 * <pre>
 * vectors -> decode -> keyBy(id) -> place -------> keyBy(shard) -> search -> keyBy(number) -> merge
 *              |  \                 ^                      ^    .                               |
 *              |   sample           | commands             |    . reports                     measure
 *              |      \             |                      |    .                               |
 *              |       train -> balance <. . . . . . . . . | . ..                              sink
 *              |                    | commands             |
 * queries ----> decode -> (number) -+-------> route -------+
 * </pre>
 *
 * Every operator has a fixed uid: the names of the state in a checkpoint.
 */
public final class VStreamJob {

    /** Records may wait this long for a network buffer to fill on the way of vectors. */
    private static final long INGEST_BUFFER_MILLIS = 1;

    /** Records of the query path leave at once. */
    private static final long QUERY_BUFFER_MILLIS = 0;

    /** How often a partition says how far it is and what its cells cost, at the least. */
    private static final long REPORT_MILLIS_MAX = 1_000;

    private final JobSettings job;
    private final StreamExecutionEnvironment env;

    private VStreamJob(StreamExecutionEnvironment env, JobSettings job) {
        this.env = env;
        this.job = job;
    }

    /**
     * The two streams that leave the dataflow.
     *
     * @param answers merged answers, counted and timed
     * @param bad records that were refused
     */
    public record Outputs(DataStream<Answer> answers, DataStream<BadRecord> bad) {}

    /** Settings that the dataflow relies on; checkpoints stay aligned, see {@link Place}. */
    public static Configuration flinkSettings() {
        Configuration flink = new Configuration();
        flink.set(PipelineOptions.GENERIC_TYPES, false);
        flink.set(PipelineOptions.OBJECT_REUSE, true);
        flink.set(PipelineOptions.MAX_PARALLELISM, ShardKeys.SHARDS);
        flink.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, java.time.Duration.ZERO);
        flink.set(CheckpointingOptions.ENABLE_UNALIGNED, false);
        // Several files in one would be counted as one.
        flink.set(CheckpointingOptions.FILE_MERGING_ENABLED, false);
        return flink;
    }

    /** True if the encoder must see a sample before rows can be placed. */
    public static boolean needsTraining(JobSettings job) {
        try (NativeRouter router = NativeRouter.unplaced(job.collection())) {
            return !router.placed();
        }
    }

    /**
     * Adds the dataflow between sources and sinks.
     *
     * @param env made with {@link #flinkSettings}
     * @param streams the input
     * @throws IllegalArgumentException if {@code env} allows unaligned checkpoints
     */
    public static Outputs add(
            StreamExecutionEnvironment env, JobSettings job, Sources.Streams streams) {
        if (env.getCheckpointConfig().isUnalignedCheckpointsEnabled()) {
            throw new IllegalArgumentException(
                    "VStream needs aligned checkpoints: the marks that say where rows are must not"
                            + " overtake them. Set execution.checkpointing.unaligned to false.");
        }
        env.setMaxParallelism(ShardKeys.SHARDS);
        env.setParallelism(job.parallelism());
        env.setBufferTimeout(INGEST_BUFFER_MILLIS);
        return new VStreamJob(env, job).dataflow(streams);
    }

    /** Adds the sink that the settings ask for. */
    public static void addSink(JobSettings job, DataStream<Answer> answers) {
        switch (job.results().kind()) {
            case "file" ->
                    answers.sinkTo(new AnswerFile(job.results().path()))
                            .setParallelism(1)
                            .name("file")
                            .uid("file");
            case "console" ->
                    answers.sinkTo(new AnswerConsole())
                            .setParallelism(1)
                            .name("console")
                            .uid("console");
            case "kafka" -> Topics.sink(answers, job.results().kafka());
            default -> answers.sinkTo(new DiscardingSink<>()).name("blackhole").uid("blackhole");
        }
    }

    private Outputs dataflow(Sources.Streams streams) {
        SingleOutputStreamOperator<VectorRecord> decoded = decode(streams.vectors(), "decode");
        DataStream<BadRecord> bad = decoded.getSideOutput(BadRecord.TAG);
        SingleOutputStreamOperator<VectorRecord> asked = decoded;
        if (streams.queries() != null) {
            asked = decode(streams.queries(), "decode-queries");
            bad = bad.union(asked.getSideOutput(BadRecord.TAG));
        }
        DataStream<RouteEvent> commands = balance(train(decoded));
        SingleOutputStreamOperator<Write> writes = place(decoded, commands);
        DataStream<QueryCopy> copies = route(asked, commands);
        DataStream<Answer> answers = merge(search(writes, copies));
        return new Outputs(answers, bad.union(writes.getSideOutput(BadRecord.TAG)));
    }

    private SingleOutputStreamOperator<VectorRecord> decode(
            DataStream<Incoming> incoming, String uid) {
        int sample = needsTraining(job) ? job.trainingSample() : 0;
        int k = job.queries() == null ? 1 : job.queries().k();
        return incoming.transform(
                        uid,
                        VectorRecord.TYPE,
                        new ProcessOperator<>(new Decode(job.rules(), sample, k)))
                .setParallelism(incoming.getParallelism())
                .uid(uid);
    }

    private DataStream<RouteEvent> train(SingleOutputStreamOperator<VectorRecord> decoded) {
        // Its own task: training takes seconds, and decode's vectors are reused.
        return decoded.getSideOutput(Decode.SAMPLE)
                .transform(
                        "train",
                        RouteEvent.TYPE,
                        new Trainer(
                                job.collection(), job.rules().dimension(), job.trainingSample()))
                .setParallelism(1)
                .disableChaining()
                .uid("train");
    }

    private DataStream<RouteEvent> balance(DataStream<RouteEvent> templates) {
        // Its own task, too, so that it hears reports while the encoder is trained.
        return templates
                .transform(
                        "balance",
                        RouteEvent.TYPE,
                        new BalanceFactory(rebalance(), job.collection(), job.parallelism()))
                .setParallelism(1)
                .disableChaining()
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid("balance");
    }

    /** Rows change partition only where there is a folder that all machines see. */
    private BalanceSettings rebalance() {
        String checkpoints =
                env.getConfiguration()
                        .getOptional(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
                        .orElse(null);
        BalanceSettings settings = job.rebalance().in(checkpoints);
        if (settings.on() && checkpoints == null) {
            throw new IllegalArgumentException(
                    "Rows that change partition go through the checkpoint folder, and there is"
                        + " none. Set execution.checkpointing.dir, or rebalance.policy to none.");
        }
        return settings;
    }

    private SingleOutputStreamOperator<Write> place(
            DataStream<VectorRecord> decoded, DataStream<RouteEvent> templates) {
        return decoded.keyBy(record -> record.id, Types.LONG)
                .connect(templates.broadcast())
                .transform(
                        "place",
                        Write.TYPE,
                        new Place(
                                job.collection(),
                                job.rules().dimension(),
                                job.parallelism(),
                                job.vectors().timeToLiveMillis(),
                                job.faults()))
                .uid("place");
    }

    private DataStream<QueryCopy> route(
            SingleOutputStreamOperator<VectorRecord> decoded, DataStream<RouteEvent> events) {
        // A step of its own, in decode's task, so that queries leave at once and vectors do not.
        DataStream<QueryRecord> queries =
                decoded.getSideOutput(Decode.QUERIES)
                        .map(query -> query)
                        .returns(QueryRecord.TYPE)
                        .setParallelism(decoded.getParallelism())
                        .setBufferTimeout(QUERY_BUFFER_MILLIS)
                        .name("queries")
                        .uid("queries");
        return queries.rebalance()
                .connect(events.broadcast())
                .transform(
                        "route",
                        QueryCopy.TYPE,
                        new QueryRouter(
                                job.collection(),
                                job.rules().dimension(),
                                job.parallelism(),
                                job.auditShare(),
                                job.rebalance().on()))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid("route");
    }

    private DataStream<PartialAnswer> search(
            DataStream<Write> writes, DataStream<QueryCopy> copies) {
        SearchSettings settings =
                new SearchSettings(
                        job.collection(),
                        job.rules().dimension(),
                        job.stateFolder(),
                        job.snapshotFolder(),
                        rebalance().folder(),
                        Math.min(REPORT_MILLIS_MAX, rebalance().intervalMillis() / 2),
                        rebalance().on(),
                        job.searching(),
                        job.faults());
        return ShardKeys.deal(writes, write -> write.shard)
                .connect(ShardKeys.deal(copies, QueryCopy::shard))
                .transform("search", PartialAnswer.TYPE, new SearchFactory(settings))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid("search");
    }

    private DataStream<Answer> merge(DataStream<PartialAnswer> partials) {
        return partials.keyBy(partial -> partial.ticket().number(), Types.LONG)
                .transform("merge", Answer.TYPE, new Merge(job.mergeDeadlineMillis(), job.faults()))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid("merge")
                .transform("measure", Answer.TYPE, new Measure())
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid("measure");
    }
}
