package io.vstream.flink.sink;

import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerJson;
import java.io.BufferedWriter;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.RandomAccessFile;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * Writes answers to one local file as JSON lines; one subtask.
 *
 * <p>A checkpoint holds the length of the file. After a restart the file is cut back to it, so that
 * a file of a job that ended holds every answer once. Who reads along may see lines that a restart
 * takes back and writes again.
 */
public final class AnswerFile implements Sink<Answer>, SupportsWriterState<Answer, Long> {

    private static final long serialVersionUID = 1L;

    private final String path;

    /**
     * @param path of the file; its folder is made, an old file is overwritten
     */
    public AnswerFile(String path) {
        this.path = path;
    }

    @Override
    public SinkWriter<Answer> createWriter(WriterInitContext context) throws IOException {
        return new LineWriter(Path.of(path), 0);
    }

    @Override
    public StatefulSinkWriter<Answer, Long> restoreWriter(
            WriterInitContext context, Collection<Long> lengths) throws IOException {
        long length = lengths.stream().mapToLong(Long::longValue).max().orElse(0);
        return new LineWriter(Path.of(path), length);
    }

    @Override
    public SimpleVersionedSerializer<Long> getWriterStateSerializer() {
        return new LengthSerializer();
    }

    private static final class LineWriter implements StatefulSinkWriter<Answer, Long> {

        private final FileOutputStream file;
        private final Writer out;

        private LineWriter(Path path, long length) throws IOException {
            if (path.toAbsolutePath().getParent() != null) {
                Files.createDirectories(path.toAbsolutePath().getParent());
            }
            try (RandomAccessFile old = new RandomAccessFile(path.toFile(), "rw")) {
                old.setLength(length);
            }
            file = new FileOutputStream(path.toFile(), true);
            out = new BufferedWriter(new OutputStreamWriter(file, StandardCharsets.UTF_8));
        }

        @Override
        public void write(Answer answer, Context context) throws IOException {
            out.write(AnswerJson.line(answer, null));
            out.write('\n');
        }

        @Override
        public void flush(boolean endOfInput) throws IOException {
            out.flush();
            file.getFD().sync();
        }

        @Override
        public List<Long> snapshotState(long checkpointId) throws IOException {
            flush(false);
            return List.of(file.getChannel().size());
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }

    /** One long. */
    private static final class LengthSerializer implements SimpleVersionedSerializer<Long> {

        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(Long length) throws IOException {
            DataOutputSerializer out = new DataOutputSerializer(Long.BYTES);
            out.writeLong(length);
            return out.getCopyOfBuffer();
        }

        @Override
        public Long deserialize(int version, byte[] bytes) throws IOException {
            return new DataInputDeserializer(bytes).readLong();
        }
    }
}
