package io.vstream.flink.control;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.streaming.api.operators.collect.CollectCoordinationResponse;
import org.apache.flink.util.SerializedValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Names of isolated groups that have too many rows for one partition, from the partitions that
 * answered for them to the place tasks, through the coordinator of search. It keeps no state: a
 * partition tells a name again with the next query, and a place task knows what it has done.
 */
public final class LargeGroups {

    private static final Logger LOG = LoggerFactory.getLogger(LargeGroups.class);

    /** Most names that the coordinator holds. */
    private static final int NAMES_MAX = 4096;

    /** Most names of a report. */
    private static final int REPORT_MAX = 256;

    private LargeGroups() {}

    /** Tells names. */
    record Report(ArrayList<String> names) implements CoordinationRequest {
        private static final long serialVersionUID = 1L;
    }

    /**
     * Requests the names that came after the first so many.
     *
     * @param after how many the task has heard
     */
    record Request(int after) implements CoordinationRequest {
        private static final long serialVersionUID = 1L;
    }

    /** What a coordinator has heard, in the order in which it came. For one thread. */
    static final class Heard {

        private final LinkedHashSet<String> names = new LinkedHashSet<>();

        /** Adds the names of a report. */
        void add(Report report) {
            for (String name : report.names) {
                if (names.size() < NAMES_MAX) {
                    names.add(name);
                }
            }
        }

        /** Says how many names there are, and those that are new to the task. */
        CoordinationResponse answer(Request request) {
            // A coordinator that began anew has heard less than the task.
            int after = request.after <= names.size() ? request.after : 0;
            List<byte[]> news =
                    names.stream()
                            .skip(after)
                            .map(name -> name.getBytes(StandardCharsets.UTF_8))
                            .toList();
            return BytesResponse.of(news, names.size());
        }
    }

    /** Tells the coordinator from a partition. For the task thread. */
    public static final class Reporter {

        private final TaskOperatorEventGateway jobManager;
        private final OperatorID search;
        private final LinkedHashSet<String> waiting = new LinkedHashSet<>();
        private CompletableFuture<CoordinationResponse> last;

        /**
         * @param jobManager the task's way to coordinators
         * @param search whose coordinator hears the names
         */
        public Reporter(TaskOperatorEventGateway jobManager, OperatorID search) {
            this.jobManager = jobManager;
            this.search = search;
        }

        /** Notes a name for the next report. */
        public void note(String group) {
            if (waiting.size() < REPORT_MAX) {
                waiting.add(group);
            }
        }

        /** Sends what was noted, unless a report is on its way. */
        public void send() throws IOException {
            if (waiting.isEmpty() || (last != null && !last.isDone())) {
                return;
            }
            Report report = new Report(new ArrayList<>(waiting));
            waiting.clear();
            last = jobManager.sendRequestToCoordinator(search, new SerializedValue<>(report));
        }
    }

    /** Asks the coordinator from a place task. For the task thread. */
    public static final class Listener {

        private final TaskOperatorEventGateway jobManager;
        private final OperatorID search;
        private final MailboxExecutor mailbox;
        private final Consumer<String> names;
        private int heard;
        private boolean awaiting;
        private boolean closed;

        /**
         * @param jobManager the task's way to coordinators
         * @param searchUid uid of the search step
         * @param mailbox of the task
         * @param names receives every name, some more than once
         */
        public Listener(
                TaskOperatorEventGateway jobManager,
                String searchUid,
                MailboxExecutor mailbox,
                Consumer<String> names) {
            this.jobManager = jobManager;
            this.search = SampleGrants.operatorOf(searchUid);
            this.mailbox = mailbox;
            this.names = names;
        }

        /** Asks for new names, unless an answer is still awaited. */
        public void ask() throws IOException {
            if (awaiting || closed) {
                return;
            }
            awaiting = true;
            jobManager
                    .sendRequestToCoordinator(search, new SerializedValue<>(new Request(heard)))
                    .whenComplete(this::mail);
        }

        private void mail(CoordinationResponse answer, Throwable failure) {
            try {
                mailbox.execute(() -> take(answer, failure), "large groups");
            } catch (RejectedExecutionException e) {
                // The task has ended: nobody waits for this.
            }
        }

        private void take(CoordinationResponse answer, Throwable failure) throws IOException {
            awaiting = false;
            if (closed) {
                return;
            }
            if (failure != null) {
                LOG.debug("The JobManager does not say which groups are large", failure);
                return;
            }
            heard = (int) ((CollectCoordinationResponse) answer).getLastCheckpointedOffset();
            for (byte[] name : BytesResponse.read(answer)) {
                names.accept(new String(name, StandardCharsets.UTF_8));
            }
        }

        /** Tells no name from now on. */
        public void close() {
            closed = true;
        }
    }
}
