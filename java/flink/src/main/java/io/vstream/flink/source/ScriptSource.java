package io.vstream.flink.source;

import io.vstream.flink.ingest.Incoming;
import java.util.List;
import java.util.Objects;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * Plays a {@link Script}: one split, one reader (parallelism 1), so the order of the records, and
 * with it the mix of vectors and queries, is exact and the same after every restart.
 */
public final class ScriptSource implements Source<Incoming, ScriptSplit, Boolean> {

    private static final long serialVersionUID = 1L;

    private final Script script;
    private final String gateName;

    /**
     * @param script what to play
     * @param gateName name of the {@link Gate} to obey
     */
    public ScriptSource(Script script, String gateName) {
        this.script = Objects.requireNonNull(script);
        this.gateName = Objects.requireNonNull(gateName);
    }

    /** Unbounded to Flink, which then never switches to batch execution, though it may end. */
    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Incoming, ScriptSplit> createReader(SourceReaderContext context) {
        return new ScriptReader(script, Gate.find(gateName), context);
    }

    @Override
    public SplitEnumerator<ScriptSplit, Boolean> createEnumerator(
            SplitEnumeratorContext<ScriptSplit> context) {
        return new Enumerator(context, ScriptSplit.START);
    }

    @Override
    public SplitEnumerator<ScriptSplit, Boolean> restoreEnumerator(
            SplitEnumeratorContext<ScriptSplit> context, Boolean assigned) {
        return new Enumerator(context, assigned ? null : ScriptSplit.START);
    }

    @Override
    public SimpleVersionedSerializer<ScriptSplit> getSplitSerializer() {
        return new ScriptSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
        return new AssignedSerializer();
    }

    /** Hands the one split to the one reader, once: afterwards the reader's state holds it. */
    private static final class Enumerator implements SplitEnumerator<ScriptSplit, Boolean> {

        private final SplitEnumeratorContext<ScriptSplit> context;
        private ScriptSplit unassigned;

        private Enumerator(SplitEnumeratorContext<ScriptSplit> context, ScriptSplit unassigned) {
            this.context = context;
            this.unassigned = unassigned;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<ScriptSplit> splits, int subtask) {
            if (!splits.isEmpty()) {
                unassigned = splits.get(0);
                if (context.registeredReaders().containsKey(subtask)) {
                    addReader(subtask);
                }
            }
        }

        @Override
        public void addReader(int subtask) {
            if (unassigned != null) {
                context.assignSplit(unassigned, subtask);
                unassigned = null;
            }
            context.signalNoMoreSplits(subtask);
        }

        @Override
        public Boolean snapshotState(long checkpointId) {
            return unassigned == null;
        }

        @Override
        public void close() {}
    }

    /** One byte. */
    private static final class AssignedSerializer implements SimpleVersionedSerializer<Boolean> {

        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(Boolean assigned) throws java.io.IOException {
            DataOutputSerializer out = new DataOutputSerializer(1);
            out.writeBoolean(assigned);
            return out.getCopyOfBuffer();
        }

        @Override
        public Boolean deserialize(int version, byte[] bytes) throws java.io.IOException {
            return new DataInputDeserializer(bytes).readBoolean();
        }
    }
}
