package io.vstream.flink.control;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.shaded.guava33.com.google.common.hash.Hashing;
import org.apache.flink.util.SerializedValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Shares the sample for the trainer among subtasks that do not know how many records the others
 * see: each asks the JobManager for a part of it, uses that up and asks for the next.
 *
 * <p>A subtask whose stream rests keeps what it was granted, so parts are small, and as many are
 * granted beyond the sample as there are subtasks: an eighth of the sample, or 64 vectors each.
 */
public final class SampleGrants {

    private static final Logger LOG = LoggerFactory.getLogger(SampleGrants.class);
    private static final int PARTS_PER_SUBTASK = 8;
    private static final int PART_MIN = 64;
    private static final long ANSWER_MILLIS = 5_000;

    private final TaskOperatorEventGateway jobManager;
    private final OperatorID control;
    private final int sample;
    private final int subtasks;
    private boolean exhausted;

    /**
     * @param jobManager the task's way to coordinators
     * @param controlUid uid of the control task, whose coordinator keeps the count
     * @param sample vectors in all; 0 if none is wanted
     * @param subtasks that share it
     */
    public SampleGrants(
            TaskOperatorEventGateway jobManager, String controlUid, int sample, int subtasks) {
        this.jobManager = jobManager;
        this.control = operatorOf(controlUid);
        this.sample = sample;
        this.subtasks = subtasks;
        this.exhausted = sample == 0;
    }

    /**
     * How many vectors more the subtask may send; 0 once all are granted. Waits some milliseconds
     * for the JobManager, and grants a part by itself if there is no answer.
     */
    public int more() throws InterruptedException {
        if (exhausted) {
            return 0;
        }
        if (subtasks == 1) {
            exhausted = true;
            return sample;
        }
        int part = Math.max(PART_MIN, sample / (PARTS_PER_SUBTASK * subtasks));
        long vectorsMax = sample + (long) part * subtasks;
        try {
            int granted =
                    ControlCoordinator.granted(
                            jobManager
                                    .sendRequestToCoordinator(
                                            control,
                                            new SerializedValue<>(
                                                    new ControlCoordinator.SampleRequest(
                                                            part, vectorsMax)))
                                    .get(ANSWER_MILLIS, TimeUnit.MILLISECONDS));
            exhausted = granted == 0;
            return granted;
        } catch (ExecutionException | TimeoutException e) {
            LOG.debug("The JobManager does not say how much of the sample is missing", e);
            return part;
        } catch (IOException e) {
            throw new UncheckedIOException("A question cannot be written.", e);
        }
    }

    /** Flink's own rule for the id of an operator that has a uid. */
    public static OperatorID operatorOf(String uid) {
        return new OperatorID(
                Hashing.murmur3_128(0)
                        .newHasher()
                        .putString(uid, StandardCharsets.UTF_8)
                        .hash()
                        .asBytes());
    }
}
