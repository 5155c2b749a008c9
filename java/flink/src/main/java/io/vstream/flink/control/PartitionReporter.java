package io.vstream.flink.control;

import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.published.ReadAddress;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.util.SerializedValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Sends a partition's reports to the JobManager. A report that is lost changes nothing here. */
public final class PartitionReporter {

    private static final Logger LOG = LoggerFactory.getLogger(PartitionReporter.class);

    private final TaskOperatorEventGateway jobManager;
    private final OperatorID operator;
    private ReadPoints.Report readPoint;
    private CompletableFuture<CoordinationResponse> last;
    private long lastPosition;

    /**
     * @param jobManager the task's way to its coordinators
     * @param operator whose coordinator hears the reports
     */
    public PartitionReporter(TaskOperatorEventGateway jobManager, OperatorID operator) {
        this.jobManager = jobManager;
        this.operator = operator;
    }

    /** Sets what {@link #tellReadPoint} tells. */
    public void setReadPoint(int partition, int partitions, ReadAddress address) {
        readPoint = new ReadPoints.Report(partition, partitions, address);
    }

    /** Tells where the partition answers questions from outside; repeated now and then. */
    public void tellReadPoint() {
        if (readPoint != null) {
            try {
                jobManager.sendRequestToCoordinator(operator, new SerializedValue<>(readPoint));
            } catch (IOException e) {
                throw new UncheckedIOException("An address cannot be written.", e);
            }
        }
    }

    /**
     * Sends a report. While the JobManager owes an answer to the one before it, a report that says
     * nothing new is left out, so that none pile up.
     *
     * @return false if it was left out: costs that it holds are to be told with a later one
     */
    public boolean send(PartitionReport report) {
        boolean waiting = last != null && !last.isDone();
        if (waiting && report.position() == lastPosition) {
            return false;
        }
        lastPosition = report.position();
        try {
            last = jobManager.sendRequestToCoordinator(operator, new SerializedValue<>(report));
        } catch (IOException e) {
            throw new UncheckedIOException("A report cannot be written.", e);
        }
        last.whenComplete(
                (answer, failure) -> {
                    if (failure != null) {
                        LOG.debug("A report was lost; it is repeated", failure);
                    }
                });
        return true;
    }
}
