package io.vstream.flink.job;

import io.vstream.flink.control.ControlOperatorFactory;
import io.vstream.flink.control.RebalanceSettings;
import io.vstream.flink.handover.Command;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.DecodeFunction;
import io.vstream.flink.ingest.DecodeOperator;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.kafka.Topics;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.MeasureOperator;
import io.vstream.flink.merge.MergeOperator;
import io.vstream.flink.place.PlaceOperator;
import io.vstream.flink.place.TrainOperator;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.QueryCopy;
import io.vstream.flink.route.RouteOperator;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.flink.search.PartitionSettings;
import io.vstream.flink.search.SearchOperatorFactory;
import io.vstream.flink.sink.AnswerConsole;
import io.vstream.flink.sink.AnswerFile;
import io.vstream.nativecore.NativeLibrary;
import io.vstream.nativecore.NativeRouter;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.SchedulerExecutionMode;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

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
 * Every operator has a fixed uid: the names of the state in a checkpoint. The uids of a search that
 * has a name begin with it, so that one program may hold several searches.
 *
 * <p>Place, route and search may each run at any parallelism, and at another one after a restart:
 * each counts the channels to the others. The steps train and balance have one subtask.
 */
public final class VStreamJob {

    /** Records may wait this long for a network buffer to fill on the way of vectors. */
    private static final long INGEST_BUFFER_MILLIS = 1;

    /** Records of the query path leave at once. */
    private static final long QUERY_BUFFER_MILLIS = 0;

    private final JobSettings job;
    private final StreamExecutionEnvironment env;
    private final String search;

    private VStreamJob(StreamExecutionEnvironment env, JobSettings job, String search) {
        this.env = env;
        this.job = job;
        this.search = search;
    }

    /**
     * The two streams that leave the dataflow.
     *
     * @param answers merged answers, counted and timed
     * @param bad records that were refused
     */
    public record Outputs(DataStream<Answer> answers, DataStream<BadRecord> bad) {}

    /**
     * Settings that the dataflow relies on; checkpoints stay aligned, see {@link PlaceOperator}.
     */
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
        if (!NativeLibrary.available()) {
            return job.trained();
        }
        try (NativeRouter router = NativeRouter.unplaced(job.collection())) {
            return !router.placed();
        }
    }

    /**
     * Adds the dataflow between sources and sinks of a job that holds nothing else.
     *
     * @param env made with {@link #flinkSettings}
     * @param streams the input
     * @throws IllegalArgumentException if {@code env} has a setting that would break the search
     */
    public static Outputs add(
            StreamExecutionEnvironment env, JobSettings job, Sources.Streams streams) {
        return add(env, job, streams, "");
    }

    /**
     * Adds the dataflow of one search. The settings of {@code env} stay as they are.
     *
     * @param streams the input
     * @param search name of the search, unique in its program; may be empty
     * @throws IllegalArgumentException if {@code env} has a setting that would break the search, or
     *     already has a step with a uid of the search
     */
    public static Outputs add(
            StreamExecutionEnvironment env,
            JobSettings job,
            Sources.Streams streams,
            String search) {
        refuseWhatBreaks(env);
        VStreamJob made = new VStreamJob(env, job, search);
        if (env.getTransformations().stream()
                .anyMatch(step -> made.name("search").equals(step.getUid()))) {
            throw new IllegalArgumentException(
                    "The program already has a search with the name '"
                            + search
                            + "'. Give each search a name of its own: name(...).");
        }
        int steps = env.getTransformations().size();
        Outputs outputs = made.dataflow(streams);
        refuseTakenUids(env, steps, search);
        return outputs;
    }

    /** A name of a search may end as a step does, so that two uids are the same. */
    private static void refuseTakenUids(StreamExecutionEnvironment env, int before, String search) {
        List<Transformation<?>> all = env.getTransformations();
        Set<String> taken =
                all.subList(0, before).stream()
                        .map(Transformation::getUid)
                        .filter(Objects::nonNull)
                        .collect(Collectors.toSet());
        for (Transformation<?> step : all.subList(before, all.size())) {
            if (taken.contains(step.getUid())) {
                throw new IllegalArgumentException(
                        "The search '"
                                + search
                                + "' needs the uid '"
                                + step.getUid()
                                + "' for a step, and the program already has a step with it. Give"
                                + " the search another name: name(...).");
            }
        }
    }

    private static void refuseWhatBreaks(StreamExecutionEnvironment env) {
        if (env.getCheckpointConfig().isUnalignedCheckpointsEnabled()) {
            throw new IllegalArgumentException(
                    "VStream needs aligned checkpoints: the marks that say where rows are must not"
                            + " overtake them. Set execution.checkpointing.unaligned to false.");
        }
        if (env.getConfiguration().get(ExecutionOptions.RUNTIME_MODE)
                != RuntimeExecutionMode.STREAMING) {
            throw new IllegalArgumentException(
                    "VStream answers queries while rows come, which batch mode cannot do: it runs"
                            + " one step after the other. Set execution.runtime-mode to"
                            + " STREAMING.");
        }
        if (env.getCheckpointConfig().isCheckpointingEnabled()
                && env.getCheckpointConfig().getCheckpointingConsistencyMode()
                        == CheckpointingMode.AT_LEAST_ONCE) {
            throw new IllegalArgumentException(
                    "VStream needs exactly-once checkpoints: a write that is in a checkpoint and"
                            + " comes again after a restore would not find the row where the"
                            + " checkpoint says it is. Set execution.checkpointing.mode to"
                            + " EXACTLY_ONCE; a sink may still deliver at least once.");
        }
        if (env.getConfiguration().get(CheckpointingOptions.FILE_MERGING_ENABLED)) {
            throw new IllegalArgumentException(
                    "VStream names each file of its state in later checkpoints, and several files"
                            + " merged into one would be counted as one. Set"
                            + " execution.checkpointing.file-merging.enabled to false.");
        }
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
            default ->
                    answers.sinkTo(new DiscardingSink<>())
                            .setParallelism(answers.getParallelism())
                            .name("blackhole")
                            .uid("blackhole");
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
        DataStream<Command> commands = balance(train(decoded));
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
                        name(uid),
                        VectorRecord.TYPE,
                        new DecodeOperator(
                                new DecodeFunction(job.rules(), sample, k), name("balance")))
                .setParallelism(incoming.getParallelism())
                .setBufferTimeout(INGEST_BUFFER_MILLIS)
                .uid(name(uid));
    }

    private DataStream<Command> train(SingleOutputStreamOperator<VectorRecord> decoded) {
        // Its own task: training takes seconds, and decode's vectors are reused.
        return alone(
                        decoded.getSideOutput(DecodeFunction.SAMPLE)
                                .transform(
                                        name("train"),
                                        Command.TYPE,
                                        new TrainOperator(
                                                job.collection(),
                                                job.rules().dimension(),
                                                job.trainingSample())))
                .disableChaining()
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("train"));
    }

    private DataStream<Command> balance(DataStream<Command> templates) {
        // Its own task, too, so that it hears reports while the encoder is trained.
        return alone(
                        templates.transform(
                                name("balance"),
                                Command.TYPE,
                                new ControlOperatorFactory(rebalance(), job.collection(), search)))
                .disableChaining()
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("balance"));
    }

    /** Name and uid of a step; without a name of the search they are what they always were. */
    private String name(String step) {
        return search.isEmpty() ? step : search + "-" + step;
    }

    /** Shards are key groups, so the maximum parallelism of what is sent by shard is fixed. */
    private <T> SingleOutputStreamOperator<T> spread(SingleOutputStreamOperator<T> step) {
        return step.setParallelism(job.parallelism()).setMaxParallelism(ShardKeys.SHARDS);
    }

    /**
     * One subtask. Reactive mode starts as many as there are slots unless the maximum forbids it.
     * Elsewhere the maximum stays what savepoints hold: Flink refuses those with another one.
     */
    private <T> SingleOutputStreamOperator<T> alone(SingleOutputStreamOperator<T> step) {
        boolean reactive =
                env.getConfiguration().get(JobManagerOptions.SCHEDULER_MODE)
                        == SchedulerExecutionMode.REACTIVE;
        return reactive
                ? step.forceNonParallel()
                : step.setParallelism(1).setMaxParallelism(ShardKeys.SHARDS);
    }

    /** Rows change partition only where there is a folder that all machines see. */
    private RebalanceSettings rebalance() {
        String checkpoints =
                env.getConfiguration()
                        .getOptional(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
                        .orElse(null);
        // A name of its own, since each search sweeps its folder.
        String folder =
                checkpoints == null || search.isEmpty()
                        ? checkpoints
                        : new Path(checkpoints, search).toString();
        RebalanceSettings settings = job.rebalance().in(folder);
        if (settings.on() && checkpoints == null) {
            throw new IllegalArgumentException(
                    "Rows that change partition go through the checkpoint folder, and there is"
                        + " none. Set execution.checkpointing.dir, or rebalance.policy to none.");
        }
        return settings;
    }

    private SingleOutputStreamOperator<Write> place(
            DataStream<VectorRecord> decoded, DataStream<Command> templates) {
        return spread(
                        decoded.keyBy(record -> record.id, Types.LONG)
                                .connect(templates.broadcast())
                                .transform(
                                        name("place"),
                                        Write.TYPE,
                                        new PlaceOperator(
                                                job.collection(),
                                                job.rules().dimension(),
                                                PartitionCount.OF_CHANNELS,
                                                job.vectors().timeToLiveMillis(),
                                                job.faults())))
                .setBufferTimeout(INGEST_BUFFER_MILLIS)
                .uid(name("place"));
    }

    private DataStream<QueryCopy> route(
            SingleOutputStreamOperator<VectorRecord> decoded, DataStream<Command> events) {
        // A step of its own, in decode's task, so that queries leave at once and vectors do not.
        DataStream<QueryRecord> queries =
                decoded.getSideOutput(DecodeFunction.QUERIES)
                        .map(query -> query)
                        .returns(QueryRecord.TYPE)
                        .setParallelism(decoded.getParallelism())
                        .setBufferTimeout(QUERY_BUFFER_MILLIS)
                        .name(name("queries"))
                        .uid(name("queries"));
        return spread(
                        queries.rebalance()
                                .connect(events.broadcast())
                                .transform(
                                        name("route"),
                                        QueryCopy.TYPE,
                                        new RouteOperator(
                                                job.collection(),
                                                job.rules().dimension(),
                                                PartitionCount.OF_CHANNELS,
                                                job.auditShare(),
                                                job.rebalance().on())))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("route"));
    }

    private DataStream<PartialAnswer> search(
            DataStream<Write> writes, DataStream<QueryCopy> copies) {
        PartitionSettings settings =
                new PartitionSettings(
                        job.collection(),
                        job.rules().dimension(),
                        job.stateFolder(),
                        FinalSnapshot.staging(job.snapshotFolder()),
                        rebalance().folder(),
                        rebalance().reportMillis(),
                        rebalance().on(),
                        job.searching(),
                        job.faults());
        return spread(
                        ShardKeys.deal(writes, write -> write.shard)
                                .connect(ShardKeys.deal(copies, QueryCopy::shard))
                                .transform(
                                        name("search"),
                                        PartialAnswer.TYPE,
                                        new SearchOperatorFactory(settings, search)))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("search"));
    }

    private DataStream<Answer> merge(DataStream<PartialAnswer> partials) {
        SingleOutputStreamOperator<Answer> answers =
                spread(
                                partials.keyBy(partial -> partial.ticket().number(), Types.LONG)
                                        .transform(
                                                name("merge"),
                                                Answer.TYPE,
                                                new MergeOperator(
                                                        job.mergeDeadlineMillis(),
                                                        name("search"),
                                                        job.faults())))
                        .setBufferTimeout(QUERY_BUFFER_MILLIS)
                        .uid(name("merge"));
        return spread(answers.transform(name("measure"), Answer.TYPE, new MeasureOperator()))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("measure"));
    }
}
