package io.vstream.flink.control;

import io.vstream.flink.handover.Command;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Makes the control task with its coordinator. */
public final class ControlOperatorFactory extends AbstractStreamOperatorFactory<Command>
        implements OneInputStreamOperatorFactory<Command, Command>,
                CoordinatedOperatorFactory<Command> {

    private static final long serialVersionUID = 1L;

    private final RebalanceSettings settings;
    private final String collection;
    private final String search;

    /**
     * @param settings of the plans
     * @param collection normalised settings as JSON
     * @param search name of the search, unique in its program
     */
    public ControlOperatorFactory(RebalanceSettings settings, String collection, String search) {
        this.settings = settings;
        this.collection = collection;
        this.search = search;
    }

    @Override
    @SuppressWarnings("unchecked") // The signature of Flink's interface.
    public <T extends StreamOperator<Command>> T createStreamOperator(
            StreamOperatorParameters<Command> parameters) {
        return (T) new ControlOperator(parameters, settings, collection);
    }

    @Override
    public OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID operator) {
        return new ControlCoordinator.CoordinatorProvider(
                operator, search, true, settings.folder());
    }

    /** The coordinator that receives the reports of a search's partitions. */
    public static OperatorCoordinator.Provider reportCoordinator(
            OperatorID operator, String search) {
        return new ControlCoordinator.CoordinatorProvider(operator, search, false, null);
    }

    @Override
    @SuppressWarnings("rawtypes") // The signature of Flink's interface.
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
        return ControlOperator.class;
    }
}
