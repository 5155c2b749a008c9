package io.vstream.flink.job;

import io.vstream.flink.merge.Answer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/** A sink that keeps answers by query id where the test can see them. A replay overwrites. */
record Answers(String name) implements Sink<Answer> {

    private static final Map<String, Map<Long, Answer>> ALL = new ConcurrentHashMap<>();

    /** What has arrived under this name. */
    Map<Long, Answer> byQuery() {
        return ALL.computeIfAbsent(name, key -> new ConcurrentHashMap<>());
    }

    @Override
    public SinkWriter<Answer> createWriter(WriterInitContext context) {
        Map<Long, Answer> answers = byQuery();
        return new SinkWriter<>() {
            @Override
            public void write(Answer answer, Context at) {
                answers.put(answer.ticket().queryId(), answer);
            }

            @Override
            public void flush(boolean endOfInput) {}

            @Override
            public void close() {}
        };
    }
}
