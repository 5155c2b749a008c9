package io.vstream.flink.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Incoming;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LineScriptTest {

    @TempDir private Path folder;

    @Test
    void readsLinesAndGoesOnFromEveryPosition() throws IOException {
        LineScript script = script("one\n\n  \r\ntwo\nthr\u00e9e");
        List<String> whole = new ArrayList<>();
        List<ScriptSplit> positions = new ArrayList<>();
        Incoming record = new Incoming();
        try (Script.Player player = script.play(ScriptSplit.START, Gate.find("open"))) {
            positions.add(player.position());
            while (player.next(0, record) == Script.Outcome.RECORD) {
                whole.add(record.line);
                positions.add(player.position());
            }
        }
        assertThat(whole).containsExactly("one", "two", "thr\u00e9e");
        for (int i = 0; i < whole.size(); i++) {
            try (Script.Player player = script.play(positions.get(i), Gate.find("open"))) {
                assertThat(player.next(0, record)).isEqualTo(Script.Outcome.RECORD);
                assertThat(record.line).isEqualTo(whole.get(i));
            }
        }
    }

    @Test
    void marksALineThatIsTooLongAndGoesOn() throws IOException {
        LineScript script = script("x".repeat(LineScript.LINE_BYTES_MAX + 1) + "\nnext\n");
        Incoming record = new Incoming();
        try (Script.Player player = script.play(ScriptSplit.START, Gate.find("open"))) {
            player.next(0, record);
            assertThat(record.kind).isEqualTo(Incoming.Kind.LONG_LINE);
            player.next(0, record);
            assertThat(record.kind).isEqualTo(Incoming.Kind.VECTOR_LINE);
            assertThat(record.line).isEqualTo("next");
            assertThat(player.next(0, record)).isEqualTo(Script.Outcome.END);
        }
    }

    @Test
    void queriesWaitUntilTheVectorsAreIn() throws IOException {
        Path file = Files.writeString(folder.resolve("q.jsonl"), "q\n");
        Gate gate = Gate.install("lines");
        Incoming record = new Incoming();
        try (Script.Player player =
                new LineScript(file.toString(), true, 0).play(ScriptSplit.START, gate)) {
            assertThat(player.next(0, record)).isEqualTo(Script.Outcome.WAIT);
            gate.open(GeneratorScript.GATE_PRELOAD);
            assertThat(player.next(0, record)).isEqualTo(Script.Outcome.RECORD);
        } finally {
            Gate.release("lines");
        }
    }

    private LineScript script(String text) throws IOException {
        Path file = Files.writeString(folder.resolve("lines.jsonl"), text);
        return new LineScript(file.toString(), false, 0);
    }
}
