package io.vstream.flink.route;

import java.io.Serializable;
import org.apache.flink.streaming.runtime.tasks.StreamTask;

/**
 * Says how many subtasks a task sends its keyed output to, as the job runs now. The number that the
 * program was built with is not the answer: an adaptive scheduler starts fewer subtasks after the
 * loss of a machine and more when machines come.
 */
@FunctionalInterface
public interface PartitionCount extends Serializable {

    /** Counts the channels of the task's keyed output. */
    static PartitionCount ofChannels(ShardKeys keys) {
        return task -> Channels.keyed(task, keys.shards());
    }

    /** 1 to the number of shards. */
    int count(StreamTask<?, ?> task);
}
