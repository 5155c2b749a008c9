package io.vstream.flink.control;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.HandoverFolder;
import io.vstream.flink.handover.PartitionReport;
import io.vstream.flink.handover.Step;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.published.LatestFile;
import io.vstream.flink.published.PublishedTemplates;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailbox;
import org.apache.flink.util.SerializedValue;

/**
 * The control task, one: leads the job from each template to the next, step by step.
 *
 * <p>A command goes in the stream to every place task and every router; each acknowledges it to
 * every partition. Partitions report to the JobManager, which this task asks. When all of them have
 * reported that they have done a step, the next one is commanded. Templates come from the trainer,
 * once, and then from plans over the reported loads and, as rows come and go, from samples of what
 * lives.
 *
 * <p>Its state is the step and the two templates. After a restore it begins a new run and repeats
 * its command, going back to "switch" from "adopt", since sealed files belong to a run, and from
 * "settle", since at another parallelism one partition may have the rows of both owners: the copy
 * that it has kept of a row may say that it is the old owner's, and is no longer to be dropped.
 */
public final class ControlOperator extends AbstractStreamOperator<Command>
        implements OneInputStreamOperator<Command, Command> {

    private static final long serialVersionUID = 1L;
    private static final int HEADER_BYTES = 16;
    private static final byte[] NONE = new byte[0];
    private static final long ASK_MILLIS = 20;
    private static final long ANSWER_MILLIS = 1_000;

    /** Share of the rows that must have changed for the template to be learned anew. */
    private static final double RELEARN_SHARE = 0.1;

    private final RebalanceSettings settings;
    private final transient MailboxExecutor mailbox;
    private final transient Planner planner;
    private final String reads;

    private transient ListState<byte[]> state;
    private transient long run;
    private transient long epoch;
    private transient Step step;
    private transient byte[] older;
    private transient byte[] newer;
    private transient MovedRanges moves;
    private transient long[] reached;
    private transient CellLoads loads;
    private transient PartitionSamples samples;
    private transient HandoverFolder files;
    private transient LatestFile published;
    private transient long commandedNanos;
    private transient List<Long> stepMillis;
    private transient boolean resumed;
    private transient boolean ending;
    private transient BackgroundExecutor background;
    private transient boolean planning;
    private transient boolean polling;
    private transient boolean awaiting;
    private transient long idleDueNanos;
    private transient Level epochLevel;
    private transient Level stepLevel;
    private transient Level cells;
    private transient Count plans;
    private transient Count lessons;

    ControlOperator(
            StreamOperatorParameters<Command> parameters,
            RebalanceSettings settings,
            String collection,
            String reads) {
        super(parameters);
        this.settings = settings;
        this.mailbox = parameters.getMailboxExecutor();
        this.planner = new Planner(settings, collection);
        this.reads = reads;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        state =
                context.getOperatorStateStore()
                        .getListState(
                                new ListStateDescriptor<>(
                                        "step", BytePrimitiveArraySerializer.INSTANCE));
        step = Step.DONE;
        older = NONE;
        newer = NONE;
        List<byte[]> parts = new ArrayList<>();
        state.get().forEach(parts::add);
        if (!parts.isEmpty()) {
            ByteBuffer header = ByteBuffer.wrap(parts.get(0));
            epoch = header.getLong();
            step = Step.of(header.getInt());
            older = parts.get(1);
            newer = parts.get(2);
        }
        Meters meters = new Meters(getMetricGroup());
        epochLevel = meters.level(Names.EPOCH, epoch);
        stepLevel = meters.level(Names.STEP, Step.DONE.ordinal());
        plans = meters.count(Names.PLANS);
        lessons = meters.count(Names.LESSONS);
        cells = meters.level(Names.CELLS, 0);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        byte[] header =
                ByteBuffer.allocate(HEADER_BYTES).putLong(epoch).putInt(step.ordinal()).array();
        state.update(List.of(header, older, newer));
    }

    @Override
    public void open() throws Exception {
        super.open();
        checkAlone();
        // Chance, since nothing that survives a failure may be needed to tell two runs apart.
        run = ThreadLocalRandom.current().nextLong() | 1;
        reached = new long[0];
        stepMillis = new ArrayList<>();
        loads = new CellLoads(0);
        samples = new PartitionSamples(0);
        background = new BackgroundExecutor("vstream-plan", mailbox);
        moves = moves();
        files =
                settings.folder() == null
                        ? null
                        : new HandoverFolder(
                                HandoverFolder.of(settings.folder(), getRuntimeContext()));
        published = reads == null ? null : new LatestFile(PublishedTemplates.path(new Path(reads)));
        publish();
        schedule(0, this::resume);
        if (settings.enabled()) {
            schedule(settings.intervalMillis(), this::look);
            polling = true;
            schedule(ASK_MILLIS, this::poll);
        }
    }

    private void checkAlone() {
        int tasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        if (tasks != 1) {
            throw new IllegalStateException(
                    "The job started "
                            + tasks
                            + " control tasks and must have one. Leave the parallelism of the step"
                            + " 'balance' at 1.");
        }
    }

    @Override
    public void processElement(StreamRecord<Command> element) {
        Command event = element.getValue();
        if (event.epoch() <= epoch) {
            return;
        }
        if (event.template().length == 0) {
            // Restored from a state of the time before there was a control task.
            epoch = event.epoch();
            epochLevel.set(epoch);
            return;
        }
        begin(event.epoch(), event.template());
    }

    /** Takes the reports that the JobManager has; those of earlier runs do not count. */
    private void receive(List<PartitionReport> reports) {
        List<PartitionReport> current = reports.stream().filter(one -> one.run() == run).toList();
        // Loads first: the end of a hand-over, which may follow, makes them old.
        for (PartitionReport report : current) {
            expect(report.partitions());
            if (report.hasLoads()) {
                loads.take(report);
            }
            if (report.drawn() != null) {
                samples.take(report.partition(), report.drawn());
            }
        }
        for (PartitionReport report : current) {
            reached[report.partition()] = Math.max(reached[report.partition()], report.position());
        }
        advance();
    }

    /** Only partitions know how many they are in this attempt of the job. */
    private void expect(int partitions) {
        if (reached.length != partitions) {
            reached = new long[partitions];
            Arrays.fill(reached, -1);
            loads = new CellLoads(partitions);
            samples = new PartitionSamples(partitions);
        }
    }

    /** The stream has ended: ends a hand-over that has begun, so that every row is in one place. */
    @Override
    public void finish() throws Exception {
        ending = true;
        resume();
        MailboxExecutor all =
                getContainingTask()
                        .getMailboxExecutorFactory()
                        .createExecutor(TaskMailbox.MIN_PRIORITY);
        while (step != Step.DONE) {
            if (!all.tryYield()) {
                // A checkpoint may be on its way whose barrier is behind the end of the stream;
                // Flink keeps the reports until it is taken.
                requestAndWait();
                Thread.sleep(ASK_MILLIS);
            }
        }
        super.finish();
    }

    private CompletableFuture<CoordinationResponse> request() {
        try {
            return getContainingTask()
                    .getEnvironment()
                    .getOperatorCoordinatorEventGateway()
                    .sendRequestToCoordinator(
                            getOperatorID(),
                            new SerializedValue<>(new ControlCoordinator.ReportsRequest()));
        } catch (IOException e) {
            throw new UncheckedIOException("A question cannot be written.", e);
        }
    }

    private void requestAndWait() throws Exception {
        try {
            receive(request().get(ANSWER_MILLIS, TimeUnit.MILLISECONDS));
        } catch (ExecutionException | TimeoutException e) {
            LOG.debug("The JobManager does not say how far the partitions are", e);
        }
    }

    private void receive(CoordinationResponse answer) throws Exception {
        receive(ControlCoordinator.reports(answer, getUserCodeClassloader()));
    }

    /** Requests reports: often in a hand-over, now and then if loads matter. */
    private void poll() {
        boolean due = step != Step.DONE || System.nanoTime() - idleDueNanos >= 0;
        if (due && !awaiting && !ending) {
            idleDueNanos =
                    System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.reportMillis());
            awaiting = true;
            request()
                    .whenComplete(
                            (answer, failure) ->
                                    mailbox.execute(() -> answered(answer, failure), "reports"));
        }
        if (step != Step.DONE || settings.enabled()) {
            schedule(ASK_MILLIS, this::poll);
        } else {
            polling = false;
        }
    }

    private void answered(CoordinationResponse answer, Throwable failure) throws Exception {
        awaiting = false;
        if (failure == null) {
            receive(answer);
        } else {
            LOG.debug("The JobManager does not say how far the partitions are", failure);
        }
    }

    @Override
    public void close() throws Exception {
        if (files != null) {
            files.close();
        }
        if (background != null) {
            background.close();
        }
        if (published != null) {
            published.close();
        }
        super.close();
    }

    /** Begins the run, once: timers may be over before they began if there is nothing to read. */
    private void resume() {
        if (resumed) {
            return;
        }
        resumed = true;
        if (files != null) {
            files.deleteAll();
        }
        if (epoch > 0 && newer.length > 0) {
            step = step == Step.ADOPT || step == Step.SETTLE ? Step.SWITCH : step;
            command();
        }
    }

    private void begin(long next, byte[] template) {
        resume();
        older = newer;
        newer = template;
        epoch = next;
        step = Step.ANNOUNCE;
        moves = moves();
        stepMillis.clear();
        epochLevel.set(epoch);
        publish();
        LOG.info("Template {} begins: {} ranges change partition.", epoch, moves.count());
        command();
    }

    private void advance() {
        if (step == Step.DONE || reached.length == 0) {
            return;
        }
        long position = CommandAck.position(epoch, step);
        for (long one : reached) {
            if (one < position) {
                return;
            }
        }
        stepMillis.add(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - commandedNanos));
        step = step.next();
        publish();
        command();
        if (step == Step.DONE) {
            LOG.info("Template {} is in use; its steps took {} ms.", epoch, stepMillis);
            loads.forget();
            if (files != null) {
                files.deleteAll();
            }
        }
    }

    /** Says outside which templates count. What is behind is harmless: see {@code JobReader}. */
    private void publish() {
        if (published != null && (step == Step.ANNOUNCE || step == Step.DONE || !resumed)) {
            boolean changing = step != Step.DONE;
            published.publish(
                    new PublishedTemplates(run, epoch, changing, changing ? older : NONE, newer)
                            .toBytes());
        }
    }

    private void command() {
        commandedNanos = System.nanoTime();
        stepLevel.set(step.ordinal());
        byte[] template = step == Step.ANNOUNCE ? newer : NONE;
        output.collect(new StreamRecord<>(new Command(run, epoch, step, template, moves.bytes())));
        if (!polling && step != Step.DONE) {
            polling = true;
            schedule(ASK_MILLIS, this::poll);
        }
    }

    /** Looks at the loads and plans a better template beside the task. */
    private void look() {
        boolean rest = step == Step.DONE && !ending && !planning && newer.length > 0;
        if (rest && reached.length > 0 && loads.complete()) {
            loads.look(System.nanoTime());
            boolean learn = samples.complete() && loads.changed() >= RELEARN_SHARE;
            if (learn) {
                loads.learned();
            }
            Planner.Input now =
                    new Planner.Input(
                            newer,
                            reached.length,
                            loads.sum(),
                            learn ? samples.rows() : null,
                            learn ? samples.share() : 0);
            long since = epoch;
            planning = true;
            background.run(() -> planner.plan(now), plan -> planned(plan, since));
        }
        schedule(settings.intervalMillis(), this::look);
    }

    private void planned(Planner.Plan plan, long since) {
        planning = false;
        cells.set(plan.cells());
        if (plan.learned()) {
            lessons.inc();
        }
        // The stream may have ended, or another template have come from the trainer.
        if (plan.template().length > 0 && !ending && step == Step.DONE && epoch == since) {
            plans.inc();
            begin(epoch + 1, plan.template());
        }
    }

    private MovedRanges moves() {
        if (older.length == 0 || newer.length == 0 || Arrays.equals(older, newer)) {
            return MovedRanges.NONE;
        }
        try (NativeRouter from = NativeRouter.fromBytes(older);
                NativeRouter to = NativeRouter.fromBytes(newer)) {
            return to.movesSince(from);
        }
    }

    private void schedule(long millis, Runnable work) {
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now + millis, time -> work.run());
    }
}
