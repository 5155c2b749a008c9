package io.vstream.flink.search;

import io.vstream.flink.balance.BalanceFactory;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.QueryCopy;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEventGateway;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperatorFactory;

/** Makes partitions that report to the control task. */
public final class SearchFactory extends AbstractStreamOperatorFactory<PartialAnswer>
        implements TwoInputStreamOperatorFactory<Write, QueryCopy, PartialAnswer>,
                CoordinatedOperatorFactory<PartialAnswer> {

    private static final long serialVersionUID = 1L;

    private final SearchSettings settings;

    /**
     * @param settings of every partition
     */
    public SearchFactory(SearchSettings settings) {
        this.settings = settings;
    }

    @Override
    @SuppressWarnings("unchecked") // The signature of Flink's interface.
    public <T extends StreamOperator<PartialAnswer>> T createStreamOperator(
            StreamOperatorParameters<PartialAnswer> parameters) {
        OperatorID operator = parameters.getStreamConfig().getOperatorID();
        OperatorEventGateway control =
                parameters.getOperatorEventDispatcher().getOperatorEventGateway(operator);
        return (T) new SearchOperator(parameters, settings, control);
    }

    @Override
    public OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID operator) {
        return BalanceFactory.hearing(operator);
    }

    @Override
    @SuppressWarnings("rawtypes") // The signature of Flink's interface.
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
        return SearchOperator.class;
    }
}
