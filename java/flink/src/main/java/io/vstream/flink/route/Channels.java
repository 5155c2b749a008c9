package io.vstream.flink.route;

import java.util.List;
import org.apache.flink.runtime.io.network.api.writer.ResultPartitionWriter;
import org.apache.flink.streaming.api.graph.NonChainedOutput;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;
import org.apache.flink.streaming.runtime.tasks.StreamTask;

/**
 * Counts the subtasks at the other ends of a task's channels. Between steps that send by key there
 * is one channel for each pair of subtasks, so this is the parallelism of the other step in the
 * present attempt of the job.
 */
public final class Channels {

    private Channels() {}

    /**
     * Subtasks that the task's keyed output goes to.
     *
     * @param shards of the collection
     * @throws IllegalStateException if the task has not exactly one keyed output, or if its
     *     receiver cannot have one key group per shard
     */
    static int keyed(StreamTask<?, ?> task, int shards) {
        List<NonChainedOutput> outputs =
                vertex(task).getVertexNonChainedOutputs(task.getUserCodeClassLoader());
        ResultPartitionWriter found = null;
        // Flink makes the writers of a task in the order of this list.
        for (int i = 0; i < outputs.size(); i++) {
            if (outputs.get(i).getOutputTag() == null
                    && outputs.get(i).getPartitioner() instanceof KeyGroupStreamPartitioner) {
                if (found != null) {
                    throw new IllegalStateException(
                            task.getName() + " has two keyed outputs and should have one.");
                }
                found = task.getEnvironment().getWriter(i);
            }
        }
        if (found == null) {
            throw new IllegalStateException(task.getName() + " has no keyed output.");
        }
        if (found.getNumTargetKeyGroups() != shards) {
            throw new IllegalStateException(
                    "The step behind "
                            + task.getName()
                            + " has "
                            + found.getNumTargetKeyGroups()
                            + " key groups and a collection has "
                            + shards
                            + " shards. Leave the maximum parallelism of this step as the search"
                            + " has set it.");
        }
        return found.getNumberOfSubpartitions();
    }

    /**
     * Subtasks that send to an input of the task's first operator.
     *
     * @param input 1 or 2
     */
    public static int into(StreamTask<?, ?> task, int input) {
        List<StreamEdge> edges = vertex(task).getInPhysicalEdges(task.getUserCodeClassLoader());
        int senders = 0;
        // Flink makes the gates of a task in the order of this list.
        for (int i = 0; i < edges.size(); i++) {
            if (edges.get(i).getTypeNumber() == input) {
                senders += task.getEnvironment().getInputGate(i).getNumberOfInputChannels();
            }
        }
        return senders;
    }

    private static StreamConfig vertex(StreamTask<?, ?> task) {
        return new StreamConfig(task.getEnvironment().getTaskConfiguration());
    }
}
