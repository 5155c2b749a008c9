package io.vstream.flink.ingest;

import io.vstream.flink.control.SampleGrants;
import org.apache.flink.streaming.api.operators.ProcessOperator;

/** Runs {@link DecodeFunction} with its part of the sample. */
public final class DecodeOperator extends ProcessOperator<Incoming, VectorRecord> {

    private static final long serialVersionUID = 1L;

    private final String controlUid;

    /**
     * @param decode what it runs
     * @param controlUid uid of the control task
     */
    public DecodeOperator(DecodeFunction decode, String controlUid) {
        super(decode);
        this.controlUid = controlUid;
    }

    @Override
    public void open() throws Exception {
        DecodeFunction decode = (DecodeFunction) userFunction;
        decode.share(
                new SampleGrants(
                        getContainingTask().getEnvironment().getOperatorCoordinatorEventGateway(),
                        controlUid,
                        decode.missing(),
                        getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks()));
        super.open();
    }
}
