package io.vstream.flink;

import io.vstream.flink.merge.Answer;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.util.Collector;

/** Keeps the answer that comes first until the other collection's is here; then sends both. */
final class Pairing extends KeyedCoProcessFunction<Long, Answer, Answer, Answer> {

    private static final long serialVersionUID = 1L;

    private transient ValueState<Answer> left;
    private transient ValueState<Answer> right;

    @Override
    public void open(OpenContext context) {
        left = getRuntimeContext().getState(new ValueStateDescriptor<>("left", Answer.class));
        right = getRuntimeContext().getState(new ValueStateDescriptor<>("right", Answer.class));
    }

    @Override
    public void processElement1(Answer answer, Context context, Collector<Answer> out)
            throws Exception {
        left.update(answer);
        pair(out);
    }

    @Override
    public void processElement2(Answer answer, Context context, Collector<Answer> out)
            throws Exception {
        right.update(answer);
        pair(out);
    }

    private void pair(Collector<Answer> out) throws Exception {
        if (left.value() != null && right.value() != null) {
            out.collect(left.value());
            out.collect(right.value());
            left.clear();
            right.clear();
        }
    }
}
