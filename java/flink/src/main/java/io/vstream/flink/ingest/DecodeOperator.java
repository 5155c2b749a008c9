package io.vstream.flink.ingest;

import io.vstream.flink.balance.SampleGrants;
import org.apache.flink.streaming.api.operators.ProcessOperator;

/** Runs {@link Decode} with its part of the sample. */
public final class DecodeOperator extends ProcessOperator<Incoming, VectorRecord> {

    private static final long serialVersionUID = 1L;

    private final String controlUid;
    private final int sampleSize;

    /**
     * @param decode what it runs
     * @param sampleSize vectors that all subtasks together send to the trainer, about
     * @param controlUid uid of the control task
     */
    public DecodeOperator(Decode decode, int sampleSize, String controlUid) {
        super(decode);
        this.sampleSize = sampleSize;
        this.controlUid = controlUid;
    }

    @Override
    public void open() throws Exception {
        ((Decode) userFunction)
                .share(
                        new SampleGrants(
                                getContainingTask()
                                        .getEnvironment()
                                        .getOperatorCoordinatorEventGateway(),
                                controlUid,
                                sampleSize,
                                getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks()));
        super.open();
    }
}
