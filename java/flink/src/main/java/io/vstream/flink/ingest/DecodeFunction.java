package io.vstream.flink.ingest;

import io.vstream.flink.control.SampleGrants;
import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.row.Schema;
import io.vstream.flink.state.Totals;
import io.vstream.flink.state.VectorSerializer;
import io.vstream.nativecore.NativeGroups;
import java.util.Arrays;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.LongPrimitiveArraySerializer;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checks what the sources send. Vector records go on as the main output, queries get their internal
 * number and leave by {@link #QUERIES}, the first vectors are also sent to the trainer by {@link
 * #SAMPLE}, and what breaks a rule goes to {@link BadRecord#TAG}, is counted by reason and never
 * fails the job.
 *
 * <p>The sample is taken here and not in place, though place would know when to stop: place needs
 * the template that comes of it, and a dataflow has no cycles. Subtasks share the sample part by
 * part, since each may see few records: see {@link SampleGrants}.
 */
public final class DecodeFunction extends ProcessFunction<Incoming, VectorRecord>
        implements CheckpointedFunction {

    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(DecodeFunction.class);

    /** Checked, numbered queries. */
    public static final OutputTag<QueryRecord> QUERIES =
            new OutputTag<>("queries", QueryRecord.TYPE);

    /** First vectors, for the trainer. */
    public static final OutputTag<float[]> SAMPLE =
            new OutputTag<>("sample", VectorSerializer.TYPE);

    /** Bits of a query's number that count; the subtask stands above them. */
    private static final int NUMBER_BITS = 48;

    /** Where a subtask's state has the vectors that it sent. */
    private static final int SENT = 2;

    /** Warnings per reason and subtask; the counters tell the rest. */
    private static final int WARNINGS_MAX = 3;

    private final VectorRules rules;
    private final Schema schema;
    private final String collection;
    private final int sampleSize;
    private final int defaultK;

    private transient LineParser parser;
    private transient VectorRecord reused;
    private transient Totals bad;
    private transient Count accepted;
    private transient Count sampledNow;
    private transient long subtask;
    private transient long queries;

    /** Sent to the trainer; the first subtask adds what was sent before a restore. */
    private transient long sampled;

    private transient long sampledBefore;
    private transient ListState<long[]> state;
    private transient SampleGrants grants;
    private transient int granted;
    private transient Asking asking;

    /**
     * For rows that carry nothing, and queries without filters.
     *
     * @see #DecodeFunction(VectorRules, Schema, String, int, int)
     */
    public DecodeFunction(VectorRules rules, int sampleSize, int defaultK) {
        this(rules, Schema.PLAIN, "{}", sampleSize, defaultK);
    }

    /**
     * @param rules what the collection accepts
     * @param schema what its rows carry
     * @param collection normalised settings as JSON
     * @param sampleSize vectors to send to the trainer, 0 if the encoder needs no training
     * @param defaultK neighbours of a query line that does not say
     */
    public DecodeFunction(
            VectorRules rules, Schema schema, String collection, int sampleSize, int defaultK) {
        this.rules = rules;
        this.schema = schema;
        this.collection = collection;
        this.sampleSize = sampleSize;
        this.defaultK = defaultK;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        Meters meters = new Meters(getRuntimeContext().getMetricGroup());
        String[] names =
                Arrays.stream(Reason.values())
                        .map(reason -> Names.BAD + reason.metric())
                        .toArray(String[]::new);
        bad = new Totals(meters, names);
        bad.restore(context.getOperatorStateStore());
        accepted = meters.count(Names.ACCEPTED);
        sampledNow = meters.count(Names.SAMPLED);
        // Every subtask sees every old count and goes on above the largest: numbers stay unique at
        // any parallelism.
        state =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>(
                                        "decode", LongPrimitiveArraySerializer.INSTANCE));
        for (long[] old : state.get()) {
            queries = Math.max(queries, old[0]);
            // In an older state subtasks repeat what others sent: only the largest count is sure.
            sampledBefore =
                    old.length > SENT ? sampledBefore + old[SENT] : Math.max(sampledBefore, old[1]);
        }
        subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        sampled = subtask == 0 ? sampledBefore : 0;
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        bad.snapshot();
        state.clear();
        state.add(new long[] {queries, 0, sampled});
    }

    @Override
    public void open(OpenContext context) {
        parser = new LineParser(defaultK, schema);
        reused = new VectorRecord();
        asking = new Asking(schema, collection);
    }

    @Override
    public void close() {
        if (asking != null) {
            asking.close();
        }
    }

    @Override
    public void processElement(Incoming record, Context context, Collector<VectorRecord> out)
            throws Exception {
        Reason reason = null;
        switch (record.kind) {
            case OFFSETS -> {
                reused.offsets(record.id, record.offsets);
                out.collect(reused);
                return;
            }
            case UNREADABLE -> reason = record.reason;
            case LONG_LINE -> {
                // Of the record before, whose object this is.
                record.clearExtras();
                reason = Reason.LINE_TOO_LONG;
            }
            case VECTOR_LINE, QUERY_LINE -> reason = parser.parse(record);
            default -> {
                // The source has read it.
            }
        }
        if (reason == null) {
            reason =
                    record.kind == Incoming.Kind.QUERY
                            ? query(record, context)
                            : vector(record, context, out);
        }
        if (reason != null) {
            refuse(reason, record, context);
        }
    }

    /** Vectors that the trainer lacks in the restored state: aligned barriers cut both alike. */
    int missing() {
        return (int) Math.max(0, sampleSize - sampledBefore);
    }

    /** Uses these grants; before the first record. */
    void share(SampleGrants sample) {
        grants = sample;
    }

    private boolean mayTake() throws InterruptedException {
        if (granted == 0) {
            granted = grants.more();
        }
        if (granted == 0) {
            return false;
        }
        granted--;
        return true;
    }

    private Reason query(Incoming record, Context context) {
        Reason reason = VectorRules.refuseQuery(record.k, record.effort);
        boolean without = record.vector.length == 0 && !record.order.isEmpty();
        if (reason == null && !without) {
            reason = rules.refuseQuery(record.vector);
        }
        if (reason == null) {
            reason = refuseGroup(record);
        }
        if (reason == null) {
            reason = asking.read(record);
        }
        if (reason == null) {
            long number = subtask << NUMBER_BITS | queries++;
            Ticket ticket =
                    new Ticket(
                            number,
                            record.id,
                            record.k,
                            record.effort,
                            record.intendedNanos,
                            record.measured);
            float[] vector = without ? new float[rules.dimension()] : record.vector;
            context.output(QUERIES, new QueryRecord(ticket, vector, asking.asked()));
        }
        return reason;
    }

    private Reason vector(Incoming record, Context context, Collector<VectorRecord> out)
            throws InterruptedException {
        boolean drop = record.kind == Incoming.Kind.DROP_GROUP;
        if (schema.textIds() && !drop && record.fields.name().isEmpty()) {
            return Reason.BAD_ID;
        }
        Reason refused = refuseGroup(record);
        if (refused != null) {
            return refused;
        }
        if (drop) {
            reused.drop();
        } else if (record.kind == Incoming.Kind.DELETE) {
            reused.delete(record.id);
        } else if (record.kind == Incoming.Kind.UPDATE) {
            reused.update(record.id, record.fields);
        } else {
            Reason reason = rules.refuseStored(record.vector);
            if (reason != null) {
                return reason;
            }
            reused.upsert(record.id, record.vector);
            if (sampled < sampleSize && mayTake()) {
                sampled++;
                context.output(SAMPLE, record.vector);
                sampledNow.inc();
            }
        }
        reused.fields = record.fields;
        reused.newer = record.newer;
        if (schema.grouped()) {
            reused.fields = record.fields.in(record.group);
            reused.shard = NativeGroups.shard(schema.seed(), schema.shards(), record.group);
        }
        out.collect(reused);
        accepted.inc();
        return null;
    }

    private Reason refuseGroup(Incoming record) {
        if (schema.grouped()) {
            if (NativeGroups.mayBe(record.group)) {
                return null;
            }
            record.problem =
                    record.group.isEmpty()
                            ? "it names no group, and groups of this collection are isolated"
                            : "its group has more than "
                                    + NativeGroups.NAME_BYTES_MAX
                                    + " bytes, or the character 0";
        } else if (record.group.isEmpty() && record.kind != Incoming.Kind.DROP_GROUP) {
            return null;
        } else {
            record.problem = "rows of this collection are in no groups";
        }
        return Reason.BAD_GROUP;
    }

    private void refuse(Reason reason, Incoming record, Context context) {
        Count count = bad.get(reason.ordinal());
        count.inc();
        BadRecord refused = new BadRecord(reason, describe(record));
        if (count.getCount() <= WARNINGS_MAX) {
            LOG.warn("Refused a record, {}: {}", reason.metric(), refused.text());
        }
        context.output(BadRecord.TAG, refused);
    }

    private String describe(Incoming record) {
        if (!record.line.isEmpty() || !record.problem.isEmpty()) {
            String colon = record.problem.isEmpty() || record.line.isEmpty() ? "" : ": ";
            return record.problem + colon + record.line;
        }
        String id = Long.toUnsignedString(record.id);
        return record.kind == Incoming.Kind.QUERY
                ? "query "
                        + id
                        + " with k "
                        + record.k
                        + " and "
                        + record.vector.length
                        + " elements"
                : "record " + id + " with " + record.vector.length + " elements";
    }
}
