package io.vstream.flink.place;

import io.vstream.flink.control.BackgroundExecutor;
import io.vstream.flink.handover.Command;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.state.VectorSerializer;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Collects the first vectors of the stream, trains the template on them, once, and sends it to
 * everyone. One task.
 *
 * <p>The sample is part of its state, so a restart before the training goes on collecting; after
 * the training only the epoch is kept. Training takes seconds and runs beside the task: meanwhile
 * the job goes on with unplaced rows, and a checkpoint that is taken then holds the whole sample,
 * to be trained on again after a restore.
 */
public final class TrainOperator extends AbstractStreamOperator<Command>
        implements OneInputStreamOperator<float[], Command> {

    private static final long serialVersionUID = 1L;

    /** Epoch of the first trained template; the untrained one has 0. */
    private static final long FIRST_EPOCH = 1;

    /**
     * Most bytes of the rows that a template is trained from, outside the heap: Flink gives a task
     * manager some 128 MiB there. Of more rows every second, third, and so on is taken.
     */
    private static final int SAMPLE_BYTES_MAX = 64 << 20;

    private final String collection;
    private final int dimension;
    private final int sampleSize;

    private transient ListState<float[]> sampleState;
    private transient ListState<Long> epochState;
    private transient List<float[]> sample;
    private transient long trained;
    private transient BackgroundExecutor background;
    private transient boolean training;
    private transient long takenMeanwhile;
    private transient Count taken;
    private transient Level epoch;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every vector
     * @param sampleSize vectors to train on, 1 or more
     */
    public TrainOperator(String collection, int dimension, int sampleSize) {
        this.collection = collection;
        this.dimension = dimension;
        this.sampleSize = sampleSize;
    }

    /** The largest sample of that dimension: it crosses to the native side in one buffer. */
    public static int sampleMax(int dimension) {
        return (Integer.MAX_VALUE - Long.BYTES) / (dimension * Float.BYTES);
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        sampleState =
                context.getOperatorStateStore()
                        .getListState(new ListStateDescriptor<>("sample", new VectorSerializer()));
        epochState =
                context.getOperatorStateStore()
                        .getListState(new ListStateDescriptor<>("epoch", LongSerializer.INSTANCE));
        sample = new ArrayList<>();
        for (float[] vector : sampleState.get()) {
            sample.add(vector);
        }
        for (long old : epochState.get()) {
            trained = Math.max(trained, old);
        }
        Meters meters = new Meters(getMetricGroup());
        taken = meters.count(Names.SAMPLE_TAKEN);
        epoch = meters.level(Names.TRAINED);
        epoch.set(trained);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        sampleState.update(sample);
        epochState.update(List.of(trained));
    }

    @Override
    public void open() throws Exception {
        super.open();
        checkAlone();
        background = new BackgroundExecutor("vstream-train", mailbox());
        if (trained == 0 && sample.size() >= sampleSize) {
            train();
        }
        if (trained > 0) {
            // A checkpoint of an older version has no control task that knows of it.
            long now = getProcessingTimeService().getCurrentProcessingTime();
            Command known = Command.template(trained, new byte[0]);
            getProcessingTimeService()
                    .registerTimer(now, time -> output.collect(new StreamRecord<>(known)));
        }
    }

    @Override
    public void processElement(StreamRecord<float[]> element) {
        if (trained == 0 && !training) {
            // Every record is a new object: it came over the network or was copied for us.
            sample.add(element.getValue());
            if (sample.size() >= sampleSize) {
                train();
            }
        }
        if (training) {
            takenMeanwhile++;
        } else {
            taken.inc();
        }
    }

    private void train() {
        training = true;
        List<float[]> rows = List.copyOf(sample);
        background.run(() -> template(rows), this::trained);
    }

    private byte[] template(List<float[]> vectors) {
        int most = Math.max(1, SAMPLE_BYTES_MAX / (dimension * Float.BYTES));
        int step = (vectors.size() + most - 1) / most;
        int count = (vectors.size() + step - 1) / step;
        ByteBuffer rows = BufferLayout.allocate(count * dimension * Float.BYTES + Long.BYTES);
        for (int row = 0; row < count; row++) {
            rows.asFloatBuffer().put(row * dimension, vectors.get(row * step), 0, dimension);
        }
        try (NativeRouter router = NativeRouter.train(collection, rows, count, FIRST_EPOCH)) {
            return router.toBytes();
        }
    }

    private void trained(byte[] template) {
        output.collect(new StreamRecord<>(Command.template(FIRST_EPOCH, template)));
        trained = FIRST_EPOCH;
        sample.clear();
        training = false;
        epoch.set(trained);
        // After the epoch: the quiet check reads these in this order.
        taken.inc(takenMeanwhile);
        takenMeanwhile = 0;
    }

    /** The stream has ended: the template is for what comes after a restore. */
    @Override
    public void finish() throws Exception {
        MailboxExecutor mailbox = mailbox();
        while (training) {
            mailbox.yield();
        }
        super.finish();
    }

    @Override
    public void close() throws Exception {
        if (background != null) {
            background.close();
        }
        super.close();
    }

    private MailboxExecutor mailbox() {
        return getContainingTask()
                .getMailboxExecutorFactory()
                .createExecutor(getOperatorConfig().getChainIndex());
    }

    private void checkAlone() {
        int tasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        if (tasks != 1) {
            throw new IllegalStateException(
                    "The job started "
                            + tasks
                            + " trainers and must have one. Leave the parallelism of the step"
                            + " 'train' at 1.");
        }
    }
}
