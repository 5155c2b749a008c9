package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;

/** Passes records on and throws once: after {@code records}, when a checkpoint has completed. */
final class FailOnce implements MapFunction<Incoming, Incoming>, CheckpointListener {

    private static final long serialVersionUID = 1L;
    private static final Map<String, AtomicBoolean> FAILED = new ConcurrentHashMap<>();

    private final String name;
    private final int records;
    private transient int seen;
    private transient boolean checkpointed;

    FailOnce(String name, int records) {
        this.name = name;
        this.records = records;
    }

    /** True once it has thrown. */
    static boolean failed(String name) {
        return flag(name).get();
    }

    @Override
    public Incoming map(Incoming record) throws InterruptedException {
        if (seen > records && !checkpointed && !failed(name)) {
            // On a busy machine the stream would end before a checkpoint has completed.
            Thread.sleep(10);
        }
        // Not among the queries: the failure is meant to take writes back.
        if (++seen > records
                && checkpointed
                && record.kind != Incoming.Kind.QUERY
                && flag(name).compareAndSet(false, true)) {
            throw new IllegalStateException("The test fails the job here.");
        }
        return record;
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) {
        // The checkpoint must be of the middle of the stream and not of its beginning.
        checkpointed |= seen > records / 2;
    }

    private static AtomicBoolean flag(String name) {
        return FAILED.computeIfAbsent(name, key -> new AtomicBoolean());
    }
}
