package io.vstream.flink.route;

import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.nativecore.NativeGroups;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Sends a query to the one partition that has its group; where the group is spread, to that one and
 * to each of its slices. Nothing is audited: every answer is exact.
 *
 * <p>The second input says which groups are spread. Every subtask hears of all of them, and never
 * forgets one: see {@code GroupSpreading}.
 */
public final class GroupRouteOperator extends AbstractStreamOperator<QueryCopy>
        implements TwoInputStreamOperator<QueryRecord, SpreadGroup, QueryCopy> {

    private static final long serialVersionUID = 1L;

    private final long seed;
    private final ShardKeys keys;

    private transient StreamRecord<QueryCopy> record;
    private transient ListState<SpreadGroup> state;
    private transient Map<String, SpreadGroup> spread;

    /**
     * @param seed of the collection
     * @param keys of the collection
     */
    public GroupRouteOperator(long seed, ShardKeys keys) {
        this.seed = seed;
        this.keys = keys;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        state =
                context.getOperatorStateStore()
                        .getUnionListState(
                                new ListStateDescriptor<>(
                                        "spread", new SpreadGroup.SpreadGroupSerializer()));
        spread = new HashMap<>();
        for (SpreadGroup group : state.get()) {
            spread.put(group.group(), group);
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        record = new StreamRecord<>(null);
        // There are no templates; see the quiet check.
        new Meters(getMetricGroup()).level(Names.EPOCH);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        state.clear();
        // All subtasks know the same ones at a barrier.
        if (getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0) {
            state.addAll(List.copyOf(spread.values()));
        }
    }

    @Override
    public void processElement1(StreamRecord<QueryRecord> element) {
        QueryRecord in = element.getValue();
        String group = in.asked().group();
        SpreadGroup slices = spread.get(group);
        if (slices == null) {
            send(in, group, NativeGroups.shard(seed, keys.shards(), group), 1, QueryCopy.WHOLE);
            return;
        }
        int expected = 1 + slices.slices();
        send(in, group, slices.shard(), expected, 0);
        for (int slice = 0; slice < slices.slices(); slice++) {
            send(in, slices.name(slice), slices.shard(slice), expected, 1 + slice);
        }
    }

    private void send(QueryRecord in, String group, int shard, int expected, int part) {
        output.collect(
                record.replace(
                        new QueryCopy(
                                in.ticket(),
                                shard,
                                true,
                                expected,
                                -1,
                                in.vector(),
                                in.asked().in(group),
                                null,
                                part)));
    }

    @Override
    public void processElement2(StreamRecord<SpreadGroup> element) {
        SpreadGroup group = element.getValue();
        spread.put(group.group(), group);
    }
}
