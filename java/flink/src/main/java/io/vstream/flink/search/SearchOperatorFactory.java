package io.vstream.flink.search;

import io.vstream.flink.control.ControlOperatorFactory;
import io.vstream.flink.control.PartitionReporter;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.QueryCopy;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperatorFactory;

/** Makes partitions that report to the control task. */
public final class SearchOperatorFactory extends AbstractStreamOperatorFactory<PartialAnswer>
        implements TwoInputStreamOperatorFactory<Write, QueryCopy, PartialAnswer>,
                CoordinatedOperatorFactory<PartialAnswer> {

    private static final long serialVersionUID = 1L;

    private final PartitionSettings settings;
    private final String search;

    /**
     * @param settings of every partition
     * @param search name of the search, unique in its program
     */
    public SearchOperatorFactory(PartitionSettings settings, String search) {
        this.settings = settings;
        this.search = search;
    }

    @Override
    @SuppressWarnings("unchecked") // The signature of Flink's interface.
    public <T extends StreamOperator<PartialAnswer>> T createStreamOperator(
            StreamOperatorParameters<PartialAnswer> parameters) {
        OperatorID operator = parameters.getStreamConfig().getOperatorID();
        PartitionReporter control =
                new PartitionReporter(
                        parameters
                                .getContainingTask()
                                .getEnvironment()
                                .getOperatorCoordinatorEventGateway(),
                        operator);
        return (T) new SearchOperator(parameters, settings, control);
    }

    @Override
    public OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID operator) {
        ReadSettings reads = settings.reads();
        return ControlOperatorFactory.reportCoordinator(
                operator, search, reads == null ? null : reads.folder(), settings.collection());
    }

    @Override
    @SuppressWarnings("rawtypes") // The signature of Flink's interface.
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
        return SearchOperator.class;
    }
}
