package io.vstream.flink.control;

import io.vstream.flink.route.ShardKeys;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.channel.ChannelStateWriteRequestExecutorFactory;
import org.apache.flink.runtime.externalresource.ExternalResourceInfoProvider;
import org.apache.flink.runtime.io.disk.iomanager.IOManagerAsync;
import org.apache.flink.runtime.jobgraph.JobType;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.tasks.TaskOperatorEventGateway;
import org.apache.flink.runtime.memory.MemoryManagerBuilder;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;
import org.apache.flink.runtime.operators.testutils.MockEnvironment;
import org.apache.flink.runtime.operators.testutils.MockInputSplitProvider;
import org.apache.flink.runtime.state.TestTaskStateManager;
import org.apache.flink.runtime.taskexecutor.TestGlobalAggregateManager;
import org.apache.flink.runtime.util.TestingTaskManagerRuntimeInfo;
import org.apache.flink.util.SerializedValue;
import org.apache.flink.util.SimpleUserCodeClassLoader;

/** Flink's environment of a task for tests, with somebody who answers the task's questions. */
public final class CoordinatedEnvironment extends MockEnvironment {

    private static final int BUFFER_BYTES = 4_096;

    private final Function<CoordinationRequest, CompletableFuture<CoordinationResponse>>
            coordinator;

    /**
     * That of an only subtask.
     *
     * @param coordinator answers
     */
    public CoordinatedEnvironment(
            Function<CoordinationRequest, CompletableFuture<CoordinationResponse>> coordinator) {
        this(coordinator, 1, 0);
    }

    /** That of one of several subtasks. */
    CoordinatedEnvironment(
            Function<CoordinationRequest, CompletableFuture<CoordinationResponse>> coordinator,
            int subtasks,
            int subtask) {
        this(new JobID(), coordinator, subtasks, subtask);
    }

    private CoordinatedEnvironment(
            JobID job,
            Function<CoordinationRequest, CompletableFuture<CoordinationResponse>> coordinator,
            int subtasks,
            int subtask) {
        super(
                job,
                "job",
                new JobVertexID(),
                JobType.STREAMING,
                "task",
                new MockInputSplitProvider(),
                BUFFER_BYTES,
                new Configuration(),
                new ExecutionConfig(),
                new IOManagerAsync(),
                new TestTaskStateManager(),
                new TestGlobalAggregateManager(),
                ShardKeys.USUAL,
                subtasks,
                subtask,
                SimpleUserCodeClassLoader.create(CoordinatedEnvironment.class.getClassLoader()),
                UnregisteredMetricGroups.createUnregisteredTaskMetricGroup(),
                new TestingTaskManagerRuntimeInfo(),
                MemoryManagerBuilder.newBuilder().build(),
                ExternalResourceInfoProvider.NO_EXTERNAL_RESOURCES,
                new ChannelStateWriteRequestExecutorFactory(job));
        this.coordinator = coordinator;
    }

    @Override
    public TaskOperatorEventGateway getOperatorCoordinatorEventGateway() {
        return new TaskOperatorEventGateway() {
            @Override
            public void sendOperatorEventToCoordinator(
                    OperatorID operator, SerializedValue<OperatorEvent> event) {
                throw new IllegalStateException("This task only asks.");
            }

            @Override
            public CompletableFuture<CoordinationResponse> sendRequestToCoordinator(
                    OperatorID operator, SerializedValue<CoordinationRequest> request) {
                try {
                    ClassLoader classes = CoordinatedEnvironment.class.getClassLoader();
                    return coordinator.apply(request.deserializeValue(classes));
                } catch (Exception e) {
                    return CompletableFuture.failedFuture(e);
                }
            }
        };
    }
}
