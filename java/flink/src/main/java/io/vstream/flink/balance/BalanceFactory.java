package io.vstream.flink.balance;

import io.vstream.flink.handover.Command;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Makes the control task with its coordinator. */
public final class BalanceFactory extends AbstractStreamOperatorFactory<Command>
        implements OneInputStreamOperatorFactory<Command, Command>,
                CoordinatedOperatorFactory<Command> {

    private static final long serialVersionUID = 1L;

    private final BalanceSettings settings;
    private final String collection;
    private final String search;

    /**
     * @param settings of the plans
     * @param collection normalised settings as JSON
     * @param search name of the search, unique in its program
     */
    public BalanceFactory(BalanceSettings settings, String collection, String search) {
        this.settings = settings;
        this.collection = collection;
        this.search = search;
    }

    @Override
    @SuppressWarnings("unchecked") // The signature of Flink's interface.
    public <T extends StreamOperator<Command>> T createStreamOperator(
            StreamOperatorParameters<Command> parameters) {
        return (T) new Balance(parameters, settings, collection);
    }

    @Override
    public OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID operator) {
        return new Relay.Maker(operator, search, true, settings.folder());
    }

    /** The relay that hears the partitions of a search. */
    public static OperatorCoordinator.Provider hearing(OperatorID operator, String search) {
        return new Relay.Maker(operator, search, false, null);
    }

    @Override
    @SuppressWarnings("rawtypes") // The signature of Flink's interface.
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
        return Balance.class;
    }
}
