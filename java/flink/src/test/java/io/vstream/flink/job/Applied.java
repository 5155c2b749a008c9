package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;

/**
 * Passes records on and knows how many of them a completed checkpoint holds: so many have all
 * partitions applied, however far apart they are, and no restart goes back behind them.
 */
final class Applied
        implements MapFunction<Incoming, Incoming>, CheckpointedFunction, CheckpointListener {

    private static final long serialVersionUID = 1L;
    private static final Map<String, Long> APPLIED = new ConcurrentHashMap<>();

    private final String name;
    private transient long seen;
    private transient ListState<Long> state;
    private transient TreeMap<Long, Long> atCheckpoints;

    Applied(String name) {
        this.name = name;
    }

    /** Records of the script that the newest completed checkpoint of a job holds. */
    static long records(String name) {
        return APPLIED.getOrDefault(name, 0L);
    }

    @Override
    public Incoming map(Incoming incoming) {
        seen++;
        return incoming;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        atCheckpoints = new TreeMap<>();
        state =
                context.getOperatorStateStore()
                        .getListState(new ListStateDescriptor<>("seen", Long.class));
        for (long restored : state.get()) {
            seen += restored;
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        state.clear();
        state.add(seen);
        atCheckpoints.put(context.getCheckpointId(), seen);
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) {
        Long records = atCheckpoints.get(checkpointId);
        if (records != null) {
            APPLIED.merge(name, records, Math::max);
        }
        atCheckpoints.headMap(checkpointId, true).clear();
    }
}
