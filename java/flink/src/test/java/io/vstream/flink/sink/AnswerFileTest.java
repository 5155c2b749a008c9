package io.vstream.flink.sink;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.merge.Answer;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AnswerFileTest {

    private static final Answer ANSWER =
            new Answer(
                    new Ticket(1, 7, 2, 0, 0, true),
                    new long[] {5},
                    new float[] {2},
                    1,
                    false,
                    Frontier.NONE);

    @TempDir private Path folder;

    @Test
    void answersAreLinesAndARestartCutsBackToTheCheckpoint() throws Exception {
        Path path = folder.resolve("new/answers.jsonl");
        AnswerFile sink = new AnswerFile(path.toString());
        long length;
        try (var writer = sink.createWriter(null)) {
            writer.write(ANSWER, null);
            length = ((AnswerFile.LineWriter) writer).snapshotState(1).get(0);
            writer.write(ANSWER, null);
        }
        assertThat(Files.readAllLines(path)).hasSize(2);
        sink.restoreWriter(null, List.of(length)).close();
        assertThat(Files.readAllLines(path)).hasSize(1).first().asString().contains("7");
    }

    @Test
    void aFileThatIsShorterThanTheCheckpointSaysGoesOnWhereItEnds() throws Exception {
        Path path = folder.resolve("another.jsonl");
        AnswerFile sink = new AnswerFile(path.toString());
        try (var writer = sink.restoreWriter(null, List.of(1_000L))) {
            writer.write(ANSWER, null);
        }
        assertThat(Files.readAllLines(path)).hasSize(1).first().asString().startsWith("{");
    }

    /**
     * When the disk was full, closing the file failed like writing to it. Flink then ended the task
     * manager, and the job stood still for ever.
     */
    @Test
    void aFullDiskIsToldWithTheFileAndTheFileCanBeClosed() throws Exception {
        Path path = folder.resolve("answers.jsonl");
        FullFile file = new FullFile(path);
        var writer = new AnswerFile.LineWriter(path, file);
        writer.write(ANSWER, null);
        assertThatThrownBy(() -> writer.flush(false))
                .isInstanceOf(IOException.class)
                .hasNoCause()
                .hasMessageContaining(path.toString())
                .hasMessageContaining("No space left on device");
        assertThatThrownBy(
                        () -> {
                            for (int i = 0; i < 1_000; i++) {
                                writer.write(ANSWER, null);
                            }
                        })
                .isInstanceOf(IOException.class)
                .hasMessageContaining(path.toString());
        assertThatCode(writer::close).doesNotThrowAnyException();
        assertThat(file.getChannel().isOpen()).isFalse();
    }

    @Test
    void aFileThatCannotBeOpenedIsNamed() throws Exception {
        Path notAFolder = Files.writeString(folder.resolve("file"), "");
        String path = notAFolder.resolve("answers.jsonl").toString();
        assertThatThrownBy(() -> new AnswerFile(path).createWriter(null))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("cannot be written to " + path);
    }

    /** On a disk that has no room left. */
    private static final class FullFile extends FileOutputStream {

        FullFile(Path path) throws IOException {
            super(path.toFile(), true);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            throw new IOException("No space left on device");
        }
    }
}
