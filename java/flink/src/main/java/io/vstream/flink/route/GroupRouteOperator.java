package io.vstream.flink.route;

import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.nativecore.NativeGroups;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Sends a query to the one partition that has its group. Nothing is audited: every answer is exact.
 */
public final class GroupRouteOperator extends AbstractStreamOperator<QueryCopy>
        implements OneInputStreamOperator<QueryRecord, QueryCopy> {

    private static final long serialVersionUID = 1L;

    private final long seed;

    private transient StreamRecord<QueryCopy> record;

    /**
     * @param seed of the collection
     */
    public GroupRouteOperator(long seed) {
        this.seed = seed;
    }

    @Override
    public void open() throws Exception {
        super.open();
        record = new StreamRecord<>(null);
        // There are no templates; see the quiet check.
        new Meters(getMetricGroup()).level(Names.EPOCH);
    }

    @Override
    public void processElement(StreamRecord<QueryRecord> element) {
        QueryRecord in = element.getValue();
        int shard = NativeGroups.shard(seed, in.asked().group());
        output.collect(
                record.replace(
                        new QueryCopy(
                                in.ticket(), shard, true, 1, -1, in.vector(), in.asked(), null)));
    }
}
