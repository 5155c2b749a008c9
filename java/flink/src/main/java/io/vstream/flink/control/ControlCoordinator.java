package io.vstream.flink.control;

import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.handover.PartitionReport;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationRequestHandler;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.CoordinatorStore;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;
import org.apache.flink.streaming.api.operators.collect.CollectCoordinationResponse;
import org.apache.flink.util.InstantiationUtil;

/**
 * Keeps the newest report of every partition for the control task, in the JobManager, and the
 * results of audits for the partitions: see {@link RecallSteering}.
 *
 * <p>A coordinator belongs to one operator, so there are two: the one of search receives reports,
 * the one of the control task answers with them. They share the job's coordinator store, under the
 * name of their search. Neither has state: lost reports are repeated, and old ones are told by
 * their run. Commands do not go this way: place tasks and routers must follow them at one point of
 * their streams, in one order with checkpoints.
 *
 * <p>Both ways are requests, because Flink fails a task whose operator event is lost, and holds
 * events back while a checkpoint is on its way. A request is answered or not, and then it is sent
 * again. The control task may learn of a partition at any time, since no partition is past a
 * checkpoint that the control task, which stands before all of them, has not taken.
 */
final class ControlCoordinator implements OperatorCoordinator, CoordinationRequestHandler {

    /** Loads in one answer: far below 10 MB, Flink's limit. The rest waits for the next one. */
    private static final int LOAD_BYTES_MAX = 4 << 20;

    private static final long SWEEP_MILLIS = 5_000;

    private static final byte[] NO_STATE = new byte[0];
    private static final CoordinationResponse HEARD =
            new CollectCoordinationResponse("", 0, List.of());

    private final CoordinatorStore store;
    private final String key;
    private final boolean control;
    private final String files;
    private final RecallSteering steering = new RecallSteering();
    private final LargeGroups.Heard largeGroups = new LargeGroups.Heard();
    private final ReadPoints readPoints;
    private long sampled;

    /**
     * @param files folder of the rows that change partition, to be removed; null if it is not for
     *     this relay to do
     * @param readPoints hears where partitions answer; null if they do not
     */
    private ControlCoordinator(
            CoordinatorStore store,
            String search,
            boolean control,
            String files,
            ReadPoints readPoints) {
        this.store = store;
        this.key = "vstream-reports-" + search;
        this.control = control;
        this.files = files;
        this.readPoints = readPoints;
    }

    /**
     * Makes a coordinator where the JobManager wants one.
     *
     * @param operator that it belongs to
     * @param search name of the search, unique in its program
     * @param control true at the control task, false at search
     * @param folder below which rows change partition, which the control task's relay clears of
     *     what its job has left; null if they never do
     * @param reads folder where search's coordinator publishes the partitions; null for none
     * @param collection normalised settings as JSON
     */
    record CoordinatorProvider(
            OperatorID operator,
            String search,
            boolean control,
            String folder,
            String reads,
            String collection)
            implements Provider {
        private static final long serialVersionUID = 1L;

        /** Of a search that nobody asks from outside. */
        CoordinatorProvider(OperatorID operator, String search, boolean control, String folder) {
            this(operator, search, control, folder, null, null);
        }

        @Override
        public OperatorID getOperatorId() {
            return operator;
        }

        @Override
        public OperatorCoordinator create(Context context) {
            boolean sweeps = control && folder != null;
            String files = sweeps ? HandoverFolder.of(folder, context.getJobID()) : null;
            ReadPoints readPoints =
                    control || reads == null ? null : new ReadPoints(new Path(reads), collection);
            return new ControlCoordinator(
                    context.getCoordinatorStore(), search, control, files, readPoints);
        }
    }

    /** Requests the newest report of each partition; see {@link #reports}. */
    record ReportsRequest() implements CoordinationRequest {
        private static final long serialVersionUID = 1L;
    }

    /**
     * Requests a part of the sample.
     *
     * @param vectors that are wanted
     * @param vectorsMax that all subtasks together may have in this attempt of the job
     */
    record SampleRequest(int vectors, long vectorsMax) implements CoordinationRequest {
        private static final long serialVersionUID = 1L;
    }

    /** Reads the answer to a {@link SampleRequest}. */
    static int granted(CoordinationResponse answer) {
        return (int) ((CollectCoordinationResponse) answer).getLastCheckpointedOffset();
    }

    /** Reads the answer to a {@link ReportsRequest}; loads are told once. */
    static List<PartitionReport> reports(CoordinationResponse answer, ClassLoader classes)
            throws IOException, ClassNotFoundException {
        List<PartitionReport> reports = new ArrayList<>();
        for (byte[] one : BytesResponse.read(answer)) {
            reports.add(InstantiationUtil.deserializeObject(one, classes));
        }
        return reports;
    }

    @Override
    public CompletableFuture<CoordinationResponse> handleCoordinationRequest(
            CoordinationRequest request) {
        if (request instanceof PartitionReport report) {
            store.compute(key, (name, old) -> with(old, report));
            return CompletableFuture.completedFuture(HEARD);
        }
        if (request instanceof MergedAudits found) {
            steering.take(found);
            return CompletableFuture.completedFuture(HEARD);
        }
        if (request instanceof RecallSteering.Request own) {
            return CompletableFuture.completedFuture(steering.answer(own));
        }
        if (request instanceof LargeGroups.Report report) {
            largeGroups.add(report);
            return CompletableFuture.completedFuture(HEARD);
        }
        if (request instanceof LargeGroups.Request asked) {
            return CompletableFuture.completedFuture(largeGroups.answer(asked));
        }
        if (request instanceof ReadPoints.Report report) {
            if (readPoints != null) {
                readPoints.add(report);
            }
            return CompletableFuture.completedFuture(HEARD);
        }
        if (request instanceof SampleRequest sample) {
            long granted = Math.min(sample.vectors, Math.max(0, sample.vectorsMax - sampled));
            sampled += granted;
            return CompletableFuture.completedFuture(
                    new CollectCoordinationResponse("", granted, List.of()));
        }
        List<byte[]> answer = new ArrayList<>();
        store.compute(key, (name, old) -> addAll(old, answer));
        return CompletableFuture.completedFuture(BytesResponse.of(answer));
    }

    private static Object with(Object old, PartitionReport report) {
        Map<Integer, PartitionReport> all = copy(old);
        all.put(report.partition(), report.after(all.get(report.partition())));
        return all;
    }

    /** Adds all reports to the answer, and keeps them less the loads that it holds. */
    private static Object addAll(Object old, List<byte[]> answer) {
        Map<Integer, PartitionReport> all = copy(old);
        long loadBytes = 0;
        for (Map.Entry<Integer, PartitionReport> one : all.entrySet()) {
            byte[] whole = bytes(one.getValue());
            if (!one.getValue().hasLoads()) {
                answer.add(whole);
            } else if (loadBytes == 0 || loadBytes + whole.length <= LOAD_BYTES_MAX) {
                loadBytes += whole.length;
                answer.add(whole);
                one.setValue(one.getValue().bare());
            } else {
                answer.add(bytes(one.getValue().bare()));
            }
        }
        return all;
    }

    private static Map<Integer, PartitionReport> copy(Object old) {
        Map<Integer, PartitionReport> all = new TreeMap<>();
        if (old instanceof Map<?, ?> reports) {
            reports.values()
                    .forEach(
                            one ->
                                    all.put(
                                            ((PartitionReport) one).partition(),
                                            (PartitionReport) one));
        }
        return all;
    }

    private static byte[] bytes(PartitionReport report) {
        try {
            return InstantiationUtil.serializeObject(report);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void handleEventFromOperator(int subtask, int attempt, OperatorEvent event) {
        throw new IllegalStateException("Partitions report by questions, not by events.");
    }

    @Override
    public void executionAttemptReady(int subtask, int attempt, SubtaskGateway gateway) {
        // Nothing is ever sent to a task.
    }

    @Override
    public void executionAttemptFailed(int subtask, int attempt, Throwable reason) {
        forget();
    }

    @Override
    public void subtaskReset(int subtask, long checkpoint) {
        forget();
    }

    /** Reports of an earlier attempt may speak of other partitions, and its sample may be lost. */
    private void forget() {
        sampled = 0;
        if (readPoints != null) {
            readPoints.forget();
        }
        if (control) {
            store.compute(key, (name, old) -> null);
        }
    }

    @Override
    public void checkpointCoordinator(long checkpoint, CompletableFuture<byte[]> state) {
        state.complete(NO_STATE);
    }

    @Override
    public void start() {
        // Nothing to start.
    }

    /**
     * The job has ended, is cancelled or begins anew: sealed rows belong to one run. The JobManager
     * waits a moment for the file system, and not for ever.
     */
    @Override
    public void close() throws Exception {
        forget();
        if (readPoints != null) {
            readPoints.close();
        }
        if (files != null) {
            AtomicBoolean late = new AtomicBoolean();
            Thread sweep =
                    new Thread(() -> HandoverFolder.remove(files, late::get), "vstream-sweep");
            sweep.setDaemon(true);
            sweep.start();
            sweep.join(SWEEP_MILLIS);
            late.set(true);
        }
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
        // No state, nothing to clean up.
    }

    @Override
    public void resetToCheckpoint(long checkpoint, byte[] state) {
        // No state to go back to, and what is known is of another attempt.
        forget();
    }
}
