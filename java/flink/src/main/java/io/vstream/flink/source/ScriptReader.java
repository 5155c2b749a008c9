package io.vstream.flink.source;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.EpochClock;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/**
 * Emits the records of a script, one at a time, when they are due.
 *
 * <p>When nothing is due the reader sleeps for half a millisecond in the task thread instead of
 * handing Flink a future: a wake-up through the mailbox for each of 12,000 records a second costs
 * more than all the rest of the source. Records keep their exact intended time, so the sleep shows
 * in the measured latency and not in the load.
 */
final class ScriptReader implements SourceReader<Incoming, ScriptSplit> {

    private static final long NAP_NANOS = 500_000;
    private static final int REPORT_EVERY = 256;

    private final Script script;
    private final Gate gate;
    private final Incoming reused = new Incoming();
    private final Meters meters;
    private Level phase;
    private Level waiting;
    private Level measuredSince;
    private CompletableFuture<Void> available = new CompletableFuture<>();
    private Script.Player player;
    private boolean noMoreSplits;
    private boolean ended;
    private long emitted;

    ScriptReader(Script script, Gate gate, SourceReaderContext context) {
        this.script = script;
        this.gate = gate;
        meters = new Meters(context.metricGroup());
    }

    /**
     * Registers the metrics and shuts the gate. Flink makes a reader also for a source that had
     * ended before the checkpoint it restores, and starts only one that will read.
     */
    @Override
    public void start() {
        gate.shut();
        phase = meters.level(Names.PHASE);
        waiting = meters.level(Names.WAITING, -1);
        measuredSince = meters.level(Names.MEASURED_SINCE);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Incoming> output) throws Exception {
        if (player == null) {
            return noMoreSplits ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
        }
        Script.Outcome outcome =
                ended ? Script.Outcome.END : player.next(EpochClock.nanos(), reused);
        if (outcome == Script.Outcome.RECORD) {
            output.collect(reused);
            if (++emitted % REPORT_EVERY == 0) {
                report(outcome);
            }
            return InputStatus.MORE_AVAILABLE;
        }
        report(outcome);
        if (outcome == Script.Outcome.END) {
            ended = true;
            return InputStatus.END_OF_INPUT;
        }
        LockSupport.parkNanos(NAP_NANOS);
        return InputStatus.MORE_AVAILABLE;
    }

    @Override
    public List<ScriptSplit> snapshotState(long checkpointId) {
        return player == null ? List.of() : List.of(player.position());
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return available;
    }

    @Override
    public void addSplits(List<ScriptSplit> splits) {
        try {
            player = script.play(splits.get(0), gate);
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        available.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {
        noMoreSplits = true;
        available.complete(null);
    }

    @Override
    public void close() throws IOException {
        if (player != null) {
            player.close();
        }
    }

    private void report(Script.Outcome outcome) {
        boolean end = outcome == Script.Outcome.END;
        measuredSince.set(player.measuredSince());
        phase.set(end ? Names.PHASE_ENDED : player.phase());
        // Last, so that who sees a wait sees everything before it.
        waiting.set(end ? -1 : player.waiting());
    }
}
