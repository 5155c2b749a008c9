package io.vstream.flink;

import io.vstream.flink.merge.Answer;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;

/** Passes answers on, and throws once after a checkpoint that came after some of them. */
final class FailAfterCheckpoint implements MapFunction<Answer, Answer>, CheckpointListener {

    private static final long serialVersionUID = 1L;
    private static final int SOME = 40;
    private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

    private final String name;
    private transient int seen;
    private transient boolean checkpointed;

    FailAfterCheckpoint(String name) {
        this.name = name;
    }

    /** How often it has thrown in this process. */
    static int failures() {
        return FAILED.size();
    }

    @Override
    public Answer map(Answer answer) {
        seen++;
        if (checkpointed && FAILED.add(name)) {
            throw new IllegalStateException("The test fails the program here.");
        }
        return answer;
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) {
        checkpointed |= seen > SOME;
    }
}
