package io.vstream.flink.dataflow;

import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Refuses environments in which a search would lose or repeat rows without a word. */
final class EnvironmentCheck {

    private EnvironmentCheck() {}

    /** Refuses settings that would break a search. */
    static void refuseSettings(StreamExecutionEnvironment env) {
        if (env.getCheckpointConfig().isUnalignedCheckpointsEnabled()) {
            throw new IllegalArgumentException(
                    "VStream needs aligned checkpoints: the marks that say where rows are must not"
                            + " overtake them. Set execution.checkpointing.unaligned to false.");
        }
        if (env.getConfiguration().get(ExecutionOptions.RUNTIME_MODE)
                != RuntimeExecutionMode.STREAMING) {
            throw new IllegalArgumentException(
                    "VStream answers queries while rows come, which batch mode cannot do: it runs"
                            + " one step after the other. Set execution.runtime-mode to"
                            + " STREAMING.");
        }
        if (env.getCheckpointConfig().isCheckpointingEnabled()
                && env.getCheckpointConfig().getCheckpointingConsistencyMode()
                        == CheckpointingMode.AT_LEAST_ONCE) {
            throw new IllegalArgumentException(
                    "VStream needs exactly-once checkpoints: a write that is in a checkpoint and"
                            + " comes again after a restore would not find the row where the"
                            + " checkpoint says it is. Set execution.checkpointing.mode to"
                            + " EXACTLY_ONCE; a sink may still deliver at least once.");
        }
        if (env.getConfiguration().get(CheckpointingOptions.FILE_MERGING_ENABLED)) {
            throw new IllegalArgumentException(
                    "VStream names each file of its state in later checkpoints, and several files"
                            + " merged into one would be counted as one. Set"
                            + " execution.checkpointing.file-merging.enabled to false.");
        }
    }

    /** Refuses a second search of the same name. */
    static void refuseTakenName(StreamExecutionEnvironment env, String search, String searchUid) {
        if (env.getTransformations().stream().anyMatch(step -> searchUid.equals(step.getUid()))) {
            throw new IllegalArgumentException(
                    "The program already has a search with the name '"
                            + search
                            + "'. Give each search a name of its own: name(...).");
        }
    }

    /**
     * Refuses steps whose uids the program has already: a name of a search may end as a step does.
     *
     * @param before steps of the program before those of the search
     */
    static void refuseTakenUids(StreamExecutionEnvironment env, int before, String search) {
        List<Transformation<?>> all = env.getTransformations();
        Set<String> taken =
                all.subList(0, before).stream()
                        .map(Transformation::getUid)
                        .filter(Objects::nonNull)
                        .collect(Collectors.toSet());
        for (Transformation<?> step : all.subList(before, all.size())) {
            if (taken.contains(step.getUid())) {
                throw new IllegalArgumentException(
                        "The search '"
                                + search
                                + "' needs the uid '"
                                + step.getUid()
                                + "' for a step, and the program already has a step with it. Give"
                                + " the search another name: name(...).");
            }
        }
    }
}
