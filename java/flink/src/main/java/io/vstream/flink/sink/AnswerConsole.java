package io.vstream.flink.sink;

import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerJson;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/**
 * Prints answers to standard output as JSON lines with {@code "type":"answer"}, among the lines
 * that the job runner prints there.
 */
public final class AnswerConsole implements Sink<Answer> {

    private static final long serialVersionUID = 1L;

    @Override
    public SinkWriter<Answer> createWriter(WriterInitContext context) {
        return new ConsoleWriter();
    }

    private static final class ConsoleWriter implements SinkWriter<Answer> {
        @Override
        public void write(Answer answer, Context context) {
            System.out.println(AnswerJson.line(answer, "answer"));
        }

        @Override
        public void flush(boolean endOfInput) {
            System.out.flush();
        }

        @Override
        public void close() {
            System.out.flush();
        }
    }
}
