package io.vstream.flink.job;

import io.vstream.flink.ask.JobReader;
import io.vstream.flink.ask.JobUnavailable;
import io.vstream.flink.ask.ReadOptions;
import io.vstream.flink.merge.AnswerJson;
import io.vstream.flink.search.ReadRefused;
import io.vstream.flink.search.ReadSockets;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** {@code vstream ask}: a question per line of the standard input, an answer per line of output. */
public final class AskRunner {

    private static final int EXIT_FAILED = 1;
    private static final int EXIT_REFUSED = 2;

    private AskRunner() {}

    /**
     * Asks until the input ends. A wrong question is told on the standard error and the next one
     * goes on; the exit status is 2 then.
     *
     * @param words options and their values, as {@code vstream ask} gives them
     */
    public static void main(String[] words) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < words.length; i += 2) {
            options.put(words[i], words[i + 1]);
        }
        FileSystems.load(System.getenv());
        String keyFile = options.get("--key-file");
        String certificates = options.get("--certificates");
        ReadOptions how =
                new ReadOptions(
                        keyFile == null ? "" : ReadSockets.secret(Path.of(keyFile)),
                        certificates == null ? null : Path.of(certificates),
                        Duration.ofMillis(Long.parseLong(options.get("--deadline-millis"))),
                        Integer.parseInt(options.get("--k")));
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (JobReader job =
                new JobReader(
                        FileSystems.uri(options.get("--checkpoints")),
                        options.getOrDefault("--search", ""),
                        how)) {
            System.exit(ask(job, lines, out));
        }
    }

    private static int ask(JobReader job, BufferedReader lines, PrintStream out)
            throws IOException, InterruptedException {
        int status = 0;
        int number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            number++;
            if (line.isBlank()) {
                continue;
            }
            try {
                out.println(AnswerJson.line(job.searchLine(line), null));
            } catch (ReadRefused e) {
                System.err.println("Line " + number + " is refused: " + e.getMessage());
                status = EXIT_REFUSED;
            } catch (JobUnavailable e) {
                System.err.println(e.getMessage());
                return EXIT_FAILED;
            }
        }
        return status;
    }
}
