package io.vstream.flink.control;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.Step;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.CoordinatorStore;
import org.apache.flink.runtime.operators.coordination.CoordinatorStoreImpl;
import org.apache.flink.runtime.operators.coordination.MockOperatorCoordinatorContext;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailbox;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The control task at the end of its stream, while Flink holds back all events that it should get:
 * so it does from the beginning of a checkpoint to its barrier, which is behind the end.
 */
@Timeout(60)
class ControlOperatorTest {

    private static final int PARTITIONS = 3;
    private static final byte[] TEMPLATE = {1};
    private static final JobID JOB = new JobID(1, 2);

    private final CoordinatorStore meeting = new CoordinatorStoreImpl();
    @TempDir private Path folder;
    private ControlCoordinator control;
    private ControlCoordinator search;
    private OneInputStreamOperatorTestHarness<Command, Command> task;
    private int questions;
    private int unanswered;
    private boolean silent;

    @BeforeEach
    void meet() {
        control = relay(true);
        search = relay(false);
    }

    @Test
    void whatAJobLeavesOfItsHandOversGoesWithIt() throws Exception {
        Path others = Files.createDirectories(folder.resolve("handover-of-another").resolve("1-1"));
        Path sealed =
                Path.of(URI.create(HandoverFolder.of(folder.toUri().toString(), JOB)))
                        .resolve("77-1")
                        .resolve("0-1");
        Files.writeString(Files.createDirectories(sealed).resolve("shard-010.rows"), "rows");
        search.close();
        assertThat(sealed).isNotEmptyDirectory();
        control.close();
        assertThat(sealed.getParent().getParent()).doesNotExist();
        assertThat(others).exists();
        // There is nothing any more.
        control.close();
    }

    @Test
    void asksHowFarPartitionsAreWhenTheStreamHasEnded() throws Exception {
        begin();
        task.endInput();
        task.getOneInputOperator().finish();
        assertThat(steps()).containsExactly(Step.values());
        // Each of the others was waited for until a question said that it was done everywhere.
        assertThat(questions).isEqualTo(Step.values().length - 1);
        task.close();
    }

    @Test
    void asksAgainIfTheJobManagerDoesNotAnswer() throws Exception {
        begin();
        unanswered = 2;
        task.getOneInputOperator().finish();
        assertThat(steps()).containsExactly(Step.values());
        task.close();
    }

    @Test
    void whatPartitionsSaidInAnEarlierRunDoesNotCount() throws Exception {
        begin();
        Command now = last();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            long done = CommandAck.position(now.epoch(), Step.SETTLE);
            search.handleCoordinationRequest(
                    PartitionReport.of(partition, PARTITIONS, now.run() + 2, done));
        }
        silent = true;
        polls(3);
        assertThat(steps()).containsExactly(Step.ANNOUNCE);
        silent = false;
        task.close();
    }

    /** Rows are sealed again, since files belong to a run and owners may be one partition now. */
    @Test
    void whatWasBegunBeforeARestoreGoesBackToTheSwitch() throws Exception {
        for (int polls = 0; polls < Step.values().length; polls++) {
            begin();
            polls(polls);
            Step reached = last().step();
            OperatorSubtaskState state = task.snapshot(1, 1);
            task.close();
            task = harness();
            task.initializeState(state);
            task.open();
            polls(1);
            boolean sealed = reached == Step.ADOPT || reached == Step.SETTLE;
            assertThat(steps().get(0)).isEqualTo(sealed ? Step.SWITCH : reached);
            task.close();
        }
    }

    private void begin() throws Exception {
        task = harness();
        task.open();
        task.processElement(new StreamRecord<>(Command.template(1, TEMPLATE)));
    }

    private OneInputStreamOperatorTestHarness<Command, Command> harness() throws Exception {
        var made =
                new OneInputStreamOperatorTestHarness<>(
                        new ControlOperatorFactory(
                                new RebalanceSettings("none", 1_000, 1.1, null), "{}", "", null),
                        Command.TYPE.createSerializer(null),
                        new CoordinatedEnvironment(this::answer));
        made.setup(Command.TYPE.createSerializer(null));
        return made;
    }

    /** All partitions have done by now what was commanded last. */
    private CompletableFuture<CoordinationResponse> answer(CoordinationRequest question) {
        assertThat(question).isEqualTo(new ControlCoordinator.ReportsRequest());
        questions++;
        if (silent) {
            return control.handleCoordinationRequest(question);
        }
        if (unanswered > 0) {
            unanswered--;
            return CompletableFuture.failedFuture(new TimeoutException("too busy"));
        }
        Command now = last();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            long position = CommandAck.position(now.epoch(), now.step());
            search.handleCoordinationRequest(
                    PartitionReport.of(partition, PARTITIONS, now.run(), position));
        }
        return control.handleCoordinationRequest(question);
    }

    /** Lets so many times pass at which the task asks. */
    private void polls(int times) throws Exception {
        for (int i = 0; i < times; i++) {
            task.setProcessingTime(task.getProcessingTime() + 20);
            while (task.getTaskMailbox().hasMail()) {
                task.getTaskMailbox().take(TaskMailbox.MIN_PRIORITY).run();
            }
        }
    }

    private Command last() {
        List<Command> commands = task.extractOutputValues();
        return commands.get(commands.size() - 1);
    }

    private List<Step> steps() {
        return task.extractOutputValues().stream().map(Command::step).toList();
    }

    private ControlCoordinator relay(boolean ofControl) {
        OperatorID operator = new OperatorID();
        return (ControlCoordinator)
                new ControlCoordinator.CoordinatorProvider(
                                operator, "", ofControl, folder.toUri().toString())
                        .create(
                                new MockOperatorCoordinatorContext(operator, 1) {
                                    @Override
                                    public JobID getJobID() {
                                        return JOB;
                                    }

                                    @Override
                                    public CoordinatorStore getCoordinatorStore() {
                                        return meeting;
                                    }
                                });
    }
}
