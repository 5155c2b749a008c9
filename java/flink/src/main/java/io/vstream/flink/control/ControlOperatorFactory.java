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
    private final String reads;

    /**
     * @param settings of the plans
     * @param collection normalised settings as JSON
     * @param search name of the search, unique in its program
     * @param reads folder where templates are published; null for none
     */
    public ControlOperatorFactory(
            RebalanceSettings settings, String collection, String search, String reads) {
        this.settings = settings;
        this.collection = collection;
        this.search = search;
        this.reads = reads;
    }

    @Override
    @SuppressWarnings("unchecked") // The signature of Flink's interface.
    public <T extends StreamOperator<Command>> T createStreamOperator(
            StreamOperatorParameters<Command> parameters) {
        return (T) new ControlOperator(parameters, settings, collection, reads);
    }

    @Override
    public OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID operator) {
        return new ControlCoordinator.CoordinatorProvider(
                operator, search, true, settings.folder(), null, collection);
    }

    /**
     * The coordinator that receives the reports of a search's partitions.
     *
     * @param reads folder where it publishes the partitions; null for none
     * @param collection normalised settings as JSON
     */
    public static OperatorCoordinator.Provider reportCoordinator(
            OperatorID operator, String search, String reads, String collection) {
        return new ControlCoordinator.CoordinatorProvider(
                operator, search, false, null, reads, collection);
    }

    @Override
    @SuppressWarnings("rawtypes") // The signature of Flink's interface.
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
        return ControlOperator.class;
    }
}
