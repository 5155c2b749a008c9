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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

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
        return LineWriter.open(Path.of(path), 0);
    }

    @Override
    public StatefulSinkWriter<Answer, Long> restoreWriter(
            WriterInitContext context, Collection<Long> lengths) throws IOException {
        long length = lengths.stream().mapToLong(Long::longValue).max().orElse(0);
        return LineWriter.open(Path.of(path), length);
    }

    @Override
    public SimpleVersionedSerializer<Long> getWriterStateSerializer() {
        return new LengthSerializer();
    }

    /** Writes to the one file. */
    static final class LineWriter implements StatefulSinkWriter<Answer, Long> {

        private static final Logger LOG = LoggerFactory.getLogger(AnswerFile.class);

        private final Path path;
        private final FileOutputStream file;
        private final Writer out;

        /**
         * @param path of the file, for messages
         * @param file the same, open at its end
         */
        LineWriter(Path path, FileOutputStream file) {
            this.path = path;
            this.file = file;
            out = new BufferedWriter(new OutputStreamWriter(file, StandardCharsets.UTF_8));
        }

        /**
         * Opens a file, cut back to {@code length}. One that is shorter, such as another path than
         * that of the job before, goes on where it ends.
         */
        private static LineWriter open(Path path, long length) throws IOException {
            try {
                if (path.toAbsolutePath().getParent() != null) {
                    Files.createDirectories(path.toAbsolutePath().getParent());
                }
                try (RandomAccessFile old = new RandomAccessFile(path.toFile(), "rw")) {
                    // A device has no length to set.
                    if (old.length() > length) {
                        old.setLength(length);
                    }
                }
                return new LineWriter(path, new FileOutputStream(path.toFile(), true));
            } catch (IOException e) {
                throw failure(path, e);
            }
        }

        @Override
        public void write(Answer answer, Context context) throws IOException {
            String line = AnswerJson.line(answer, null);
            try {
                out.write(line);
                out.write('\n');
            } catch (IOException e) {
                throw failure(path, e);
            }
        }

        @Override
        public void flush(boolean endOfInput) throws IOException {
            try {
                out.flush();
                file.getFD().sync();
            } catch (IOException e) {
                throw failure(path, e);
            }
        }

        @Override
        public List<Long> snapshotState(long checkpointId) throws IOException {
            flush(false);
            return List.of(file.getChannel().size());
        }

        /**
         * Never throws: Flink ends a machine whose task cannot be closed after a failure. Nothing
         * is lost by that, since a checkpoint and the end of the input flush before.
         */
        @Override
        public void close() {
            try (file) {
                out.close();
            } catch (IOException e) {
                LOG.warn("{}", failure(path, e).getMessage());
            }
        }

        /** Without a cause: a job that failed is reported by the message of the first cause. */
        private static IOException failure(Path path, IOException why) {
            IOException named =
                    new IOException(
                            "The answers cannot be written to "
                                    + path
                                    + " ("
                                    + why.getMessage()
                                    + "). Make room, or set results.path to another file.");
            named.addSuppressed(why);
            return named;
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
