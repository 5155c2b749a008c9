package io.vstream.flink.dataflow;

import io.vstream.flink.control.ControlOperatorFactory;
import io.vstream.flink.control.RebalanceSettings;
import io.vstream.flink.handover.Command;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.DecodeFunction;
import io.vstream.flink.ingest.DecodeOperator;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.MeasureOperator;
import io.vstream.flink.merge.MergeOperator;
import io.vstream.flink.place.GroupPlaceOperator;
import io.vstream.flink.place.PlaceOperator;
import io.vstream.flink.place.TrainOperator;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.GroupRouteOperator;
import io.vstream.flink.route.PartitionCount;
import io.vstream.flink.route.QueryCopy;
import io.vstream.flink.route.RouteOperator;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.route.SpreadGroup;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.flink.search.PartitionSettings;
import io.vstream.flink.search.ReadSettings;
import io.vstream.flink.search.SearchOperatorFactory;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.SchedulerExecutionMode;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The dataflow of one search, from decoded records to merged answers.
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
 * Where rows are in isolated groups, train and balance are left out, and place and route send
 * everything to the shard of its group.
 *
 * <p>Every operator has a fixed uid: the names of the state in a checkpoint. The uids of a search
 * that has a name begin with it, so that one program may hold several searches.
 *
 * <p>Place, route and search may each run at any parallelism, and at another one after a restart:
 * each counts the channels to the others. The steps train and balance have one subtask.
 */
public final class SearchDataflow {

    /** Records may wait this long for a network buffer to fill on the way of vectors. */
    private static final long INGEST_BUFFER_MILLIS = 1;

    /** Records of the query path leave at once. */
    private static final long QUERY_BUFFER_MILLIS = 0;

    private final DataflowSettings settings;
    private final ShardKeys keys;
    private final StreamExecutionEnvironment env;
    private final String search;

    private SearchDataflow(
            StreamExecutionEnvironment env, DataflowSettings settings, String search) {
        this.env = env;
        this.settings = settings;
        this.keys = settings.keys();
        this.search = search;
    }

    /**
     * The streams that enter the dataflow.
     *
     * @param vectors vector records; maybe with queries among them
     * @param queries queries alone, or null if they are among the vectors or there are none
     */
    public record Inputs(DataStream<Incoming> vectors, DataStream<Incoming> queries) {}

    /**
     * The streams that leave the dataflow.
     *
     * @param answers merged answers, counted and timed
     * @param bad records that were refused
     */
    public record Outputs(DataStream<Answer> answers, DataStream<BadRecord> bad) {}

    /**
     * Settings that the dataflow relies on; checkpoints stay aligned, see {@link PlaceOperator}.
     * The maximum parallelism is that of a collection with {@link ShardKeys#USUAL} shards.
     */
    public static Configuration flinkSettings() {
        Configuration flink = new Configuration();
        flink.set(PipelineOptions.GENERIC_TYPES, false);
        flink.set(PipelineOptions.OBJECT_REUSE, true);
        flink.set(PipelineOptions.MAX_PARALLELISM, ShardKeys.USUAL);
        flink.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, java.time.Duration.ZERO);
        flink.set(CheckpointingOptions.ENABLE_UNALIGNED, false);
        // Without it Flink reads the state of an operator byte by byte, half a second for each
        // subtask that reads a template.
        flink.set(ExecutionOptions.SNAPSHOT_COMPRESSION, true);
        // Several files in one would be counted as one.
        flink.set(CheckpointingOptions.FILE_MERGING_ENABLED, false);
        return flink;
    }

    /**
     * Adds the one search of a program.
     *
     * @see #add(StreamExecutionEnvironment, DataflowSettings, Inputs, String)
     */
    public static Outputs add(
            StreamExecutionEnvironment env, DataflowSettings settings, Inputs inputs) {
        return add(env, settings, inputs, "");
    }

    /**
     * Adds the steps of one search. The settings of {@code env} stay as they are.
     *
     * @param env made with {@link #flinkSettings}
     * @param inputs of the search
     * @param search name of the search, unique in its program; may be empty
     * @throws IllegalArgumentException if {@code env} has a setting that would break the search, or
     *     already has a step with a uid of the search
     */
    public static Outputs add(
            StreamExecutionEnvironment env,
            DataflowSettings settings,
            Inputs inputs,
            String search) {
        EnvironmentCheck.refuseSettings(env);
        SearchDataflow made = new SearchDataflow(env, settings, search);
        EnvironmentCheck.refuseTakenName(env, search, made.name("search"));
        RestoreCheck.refuseOtherShards(env, made.name("search"), made.keys.shards());
        int steps = env.getTransformations().size();
        Outputs outputs = made.connect(inputs);
        EnvironmentCheck.refuseTakenUids(env, steps, search);
        return outputs;
    }

    private Outputs connect(Inputs inputs) {
        SingleOutputStreamOperator<VectorRecord> decoded = decode(inputs.vectors(), "decode");
        DataStream<BadRecord> bad = decoded.getSideOutput(BadRecord.TAG);
        SingleOutputStreamOperator<VectorRecord> queries = decoded;
        if (inputs.queries() != null) {
            queries = decode(inputs.queries(), "decode-queries");
            bad = bad.union(queries.getSideOutput(BadRecord.TAG));
        }
        SingleOutputStreamOperator<Write> writes;
        DataStream<QueryCopy> copies;
        if (settings.grouped()) {
            writes = placeGroups(decoded);
            copies = routeGroups(queries, writes.getSideOutput(GroupPlaceOperator.SPREAD));
        } else {
            DataStream<Command> commands = balance(train(decoded));
            writes = place(decoded, commands);
            copies = route(queries, commands);
        }
        SingleOutputStreamOperator<PartialAnswer> partials = search(writes, copies);
        return new Outputs(
                merge(partials),
                bad.union(
                        writes.getSideOutput(BadRecord.TAG),
                        partials.getSideOutput(BadRecord.TAG)));
    }

    private SingleOutputStreamOperator<VectorRecord> decode(
            DataStream<Incoming> incoming, String uid) {
        int sample = settings.needsTraining() ? settings.trainingSample() : 0;
        return incoming.transform(
                        name(uid),
                        VectorRecord.TYPE,
                        new DecodeOperator(
                                new DecodeFunction(
                                        settings.rules(),
                                        settings.schema(),
                                        settings.collection(),
                                        sample,
                                        settings.k()),
                                name("balance")))
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
                                                settings.collection(),
                                                settings.rules().dimension(),
                                                settings.trainingSample())))
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
                                new ControlOperatorFactory(
                                        rebalance(),
                                        settings.collection(),
                                        search,
                                        reads() == null ? null : reads().folder())))
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
        return step.setParallelism(settings.partitions()).setMaxParallelism(keys.shards());
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
                : step.setParallelism(1).setMaxParallelism(keys.shards());
    }

    /** Folder of the checkpoints; null for none. */
    private String checkpoints() {
        return env.getConfiguration()
                .getOptional(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
                .orElse(null);
    }

    /** Rows change partition only where there is a folder that all machines see. */
    private RebalanceSettings rebalance() {
        String checkpoints = checkpoints();
        // A name of its own, since each search sweeps its folder.
        String folder =
                checkpoints == null || search.isEmpty()
                        ? checkpoints
                        : new Path(checkpoints, search).toString();
        RebalanceSettings rebalance = settings.rebalance().withFolder(folder);
        if (rebalance.enabled() && checkpoints == null) {
            throw new IllegalArgumentException(
                    "Rows that change partition go through the checkpoint folder, and there is"
                        + " none. Set execution.checkpointing.dir, or rebalance.policy to none.");
        }
        return rebalance;
    }

    /** Where partitions answer is published beside the checkpoints; null if they do not. */
    private ReadSettings reads() {
        if (settings.reads() == null) {
            return null;
        }
        String checkpoints = checkpoints();
        if (checkpoints == null) {
            throw new IllegalArgumentException(
                    "Where partitions answer is published in the checkpoint folder, and there is"
                            + " none. Set execution.checkpointing.dir, or leave out reads.");
        }
        if (settings.grouped()) {
            throw new IllegalArgumentException(
                    "Isolated groups cannot be asked from outside the job yet: leave out reads, or"
                            + " ask through a topic.");
        }
        Path folder = new Path(checkpoints, ReadSettings.FOLDER);
        return settings.reads()
                .withFolder((search.isEmpty() ? folder : new Path(folder, search)).toString());
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
                                                settings.collection(),
                                                settings.rules().dimension(),
                                                settings.schema(),
                                                PartitionCount.ofChannels(keys),
                                                settings.timeToLiveMillis(),
                                                settings.faults())))
                .setBufferTimeout(INGEST_BUFFER_MILLIS)
                .uid(name("place"));
    }

    private DataStream<QueryCopy> route(
            SingleOutputStreamOperator<VectorRecord> decoded, DataStream<Command> events) {
        return spread(
                        queries(decoded)
                                .rebalance()
                                .connect(events.broadcast())
                                .transform(
                                        name("route"),
                                        QueryCopy.TYPE,
                                        new RouteOperator(
                                                settings.collection(),
                                                settings.rules().dimension(),
                                                PartitionCount.ofChannels(keys),
                                                settings.auditShare(),
                                                settings.rebalance().enabled())))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("route"));
    }

    private DataStream<QueryRecord> queries(SingleOutputStreamOperator<VectorRecord> decoded) {
        // A step of its own, in decode's task, so that queries leave at once and vectors do not.
        return decoded.getSideOutput(DecodeFunction.QUERIES)
                .map(query -> query)
                .returns(QueryRecord.TYPE)
                .setParallelism(decoded.getParallelism())
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .name(name("queries"))
                .uid(name("queries"));
    }

    /** Groups need no template: a hash of the name is the shard, unless the group is spread. */
    private SingleOutputStreamOperator<Write> placeGroups(DataStream<VectorRecord> decoded) {
        return spread(
                        decoded.keyBy(GroupPlaceOperator.key(keys), Types.LONG)
                                .transform(
                                        name("place"),
                                        Write.TYPE,
                                        new GroupPlaceOperator(
                                                keys,
                                                PartitionCount.ofChannels(keys),
                                                settings.schema().seed(),
                                                name("search"))))
                .setBufferTimeout(INGEST_BUFFER_MILLIS)
                .uid(name("place-groups"));
    }

    private DataStream<QueryCopy> routeGroups(
            SingleOutputStreamOperator<VectorRecord> decoded, DataStream<SpreadGroup> groups) {
        return spread(
                        queries(decoded)
                                .rebalance()
                                .connect(groups.broadcast())
                                .transform(
                                        name("route"),
                                        QueryCopy.TYPE,
                                        new GroupRouteOperator(settings.schema().seed(), keys)))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("route-groups"));
    }

    private SingleOutputStreamOperator<PartialAnswer> search(
            DataStream<Write> writes, DataStream<QueryCopy> copies) {
        PartitionSettings partition =
                new PartitionSettings(
                        settings.collection(),
                        settings.rules().dimension(),
                        settings.stateFolder(),
                        settings.snapshotFolder(),
                        rebalance().folder(),
                        rebalance().reportMillis(),
                        rebalance().enabled(),
                        settings.spreadRows(),
                        settings.search(),
                        reads(),
                        settings.faults());
        return spread(
                        keys.deal(writes, write -> write.shard)
                                .connect(keys.deal(copies, QueryCopy::shard))
                                .transform(
                                        name("search"),
                                        PartialAnswer.TYPE,
                                        new SearchOperatorFactory(partition, search)))
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
                                                        settings.mergeDeadlineMillis(),
                                                        settings.schema(),
                                                        name("search"),
                                                        settings.faults())))
                        .setBufferTimeout(QUERY_BUFFER_MILLIS)
                        .uid(name("merge"));
        return spread(answers.transform(name("measure"), Answer.TYPE, new MeasureOperator()))
                .setBufferTimeout(QUERY_BUFFER_MILLIS)
                .uid(name("measure"));
    }
}
