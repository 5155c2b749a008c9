package io.vstream.flink.ask;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** A Python of its own process that asks the job: {@code examples/python/ask_job.py}. */
public final class PythonJob implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Process process;
    private final BufferedWriter questions;
    private final BufferedReader answers;

    /**
     * Starts Python, which waits for the job.
     *
     * @throws IOException if there is no Python: {@code make python} makes one
     */
    public PythonJob(String checkpoints) throws IOException {
        Path example = Path.of(System.getProperty("vstream.examples.dir"), "python", "ask_job.py");
        String python = System.getProperty("vstream.python");
        List<String> command = List.of(python, example.toString(), checkpoints, "20");
        process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        questions = process.outputWriter(StandardCharsets.UTF_8);
        answers = process.inputReader(StandardCharsets.UTF_8);
    }

    /** Ids of the nearest rows, nearest first. */
    public long[] ask(float[] vector, int k, boolean exact) throws IOException {
        questions.write(
                "{\"vector\": %s, \"k\": %d, \"exact\": %s}%n"
                        .formatted(Arrays.toString(vector), k, exact));
        questions.flush();
        String line = answers.readLine();
        JsonNode rows = line == null ? null : JSON.readTree(line).path("rows");
        if (rows == null || !rows.isArray()) {
            throw new IOException("Python says: " + line);
        }
        long[] found = new long[rows.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = rows.get(i).path("id").asLong();
        }
        return found;
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }
}
