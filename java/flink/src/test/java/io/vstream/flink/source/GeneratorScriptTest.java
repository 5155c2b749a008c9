package io.vstream.flink.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.Incoming;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GeneratorScriptTest {

    private static final long SECOND = 1_000_000_000L;
    private static final int ROWS = 200;
    private static final int QUERIES = 7;

    @TempDir private Path folder;

    @Test
    void playsTheSameRecordsFromEveryPosition() throws IOException {
        GeneratorScript script = script(50, 500, 0, 0);
        List<String> whole = play(script, ScriptSplit.START, Integer.MAX_VALUE);
        assertThat(whole).hasSize(550);
        for (int position = 0; position < whole.size(); position += 13) {
            List<String> rest = play(script, new ScriptSplit(position, 0), Integer.MAX_VALUE);
            assertThat(rest).isEqualTo(whole.subList(position, whole.size()));
        }
    }

    @Test
    void mixesInTheExactRatio() throws IOException {
        List<String> stream = play(script(50, 500, 0, 0), ScriptSplit.START, 550).subList(50, 550);
        for (int end = 5; end <= stream.size(); end += 5) {
            List<String> cycles = stream.subList(0, end);
            assertThat(cycles.stream().filter(r -> r.startsWith("QUERY"))).hasSize(end / 5);
            assertThat(cycles.stream().filter(r -> r.startsWith("UPSERT"))).hasSize(end / 5 * 3);
            assertThat(cycles.stream().filter(r -> r.startsWith("DELETE"))).hasSize(end / 5);
        }
    }

    @Test
    void queriesCycleThroughTheirOwnFile() throws IOException {
        List<String> queries =
                play(script(50, 500, 0, 0), ScriptSplit.START, 550).stream()
                        .filter(record -> record.startsWith("QUERY"))
                        .toList();
        for (int i = 0; i < queries.size(); i++) {
            assertThat(queries.get(i))
                    .isEqualTo("QUERY " + i % QUERIES + " " + i % QUERIES * 1000f);
        }
    }

    @Test
    void deletesOnlyLiveRows() throws IOException {
        int[][] mixes = {{1, 3, 1}, {0, 1, 1}, {1, 2, 1}, {3, 4, 3}, {0, 10, 9}, {2, 7, 5}};
        int[] preloads = {0, 1, 2, 50, 100, 199, 200};
        for (int[] mix : mixes) {
            for (int preload : preloads) {
                for (long seed = 0; seed < 5; seed++) {
                    checkLive(new Mix(mix[0], mix[1], mix[2]), preload, seed);
                }
            }
        }
    }

    private void checkLive(Mix mix, int preload, long seed) throws IOException {
        GeneratorScript script = new GeneratorScript(settings(mix, preload, 6_000, 0, 0, seed));
        Set<Long> live = new HashSet<>();
        Incoming record = new Incoming();
        try (Script.Player player = script.play(ScriptSplit.START, Gate.find("open"))) {
            int number = 0;
            while (player.next(0, record) == Script.Outcome.RECORD) {
                if (record.kind == Incoming.Kind.UPSERT) {
                    live.add(record.id);
                } else if (record.kind == Incoming.Kind.DELETE) {
                    assertThat(live.remove(record.id))
                            .as("record %d, preload %d, seed %d", number, preload, seed)
                            .isTrue();
                }
                number++;
            }
        }
    }

    @Test
    void keepsTheScheduleAndTheIntendedTimes() throws IOException {
        GeneratorScript script = script(10, 0, 100, 2 * SECOND);
        Incoming record = new Incoming();
        try (Script.Player player = script.play(ScriptSplit.START, Gate.find("open"))) {
            long start = 5 * SECOND;
            for (int i = 0; i < 10; i++) {
                assertThat(player.next(start, record)).isEqualTo(Script.Outcome.RECORD);
                assertThat(record.measured).isFalse();
            }
            assertThat(player.next(start, record)).isEqualTo(Script.Outcome.RECORD);
            assertThat(player.next(start, record)).isEqualTo(Script.Outcome.WAIT);
            // Half a second late: the overdue records come at once, each with its own time.
            long late = start + SECOND / 2;
            for (int i = 1; i <= 50; i++) {
                assertThat(player.next(late, record)).isEqualTo(Script.Outcome.RECORD);
                assertThat(record.intendedNanos).isEqualTo(start + i * SECOND / 100);
                assertThat(record.measured).isTrue();
            }
            assertThat(player.next(late, record)).isEqualTo(Script.Outcome.WAIT);
            assertThat(player.next(start + 2 * SECOND, record)).isEqualTo(Script.Outcome.END);
        }
    }

    @Test
    void goesOnWithTheScheduleAfterARestart() throws IOException {
        GeneratorScript script = script(0, 0, 100, 10 * SECOND);
        Incoming record = new Incoming();
        ScriptSplit checkpoint;
        try (Script.Player player = script.play(ScriptSplit.START, Gate.find("open"))) {
            player.next(0, record);
            player.next(SECOND, record);
            checkpoint = player.position();
        }
        try (Script.Player player = script.play(checkpoint, Gate.find("open"))) {
            long later = 1_000 * SECOND;
            assertThat(player.next(later, record)).isEqualTo(Script.Outcome.RECORD);
            assertThat(record.intendedNanos).isEqualTo(later - SECOND + 2 * SECOND / 100);
        }
    }

    @Test
    void waitsAtItsGates() throws IOException {
        GeneratorScript script =
                new GeneratorScript(
                        new GeneratorScript.Settings(
                                vectors().toString(),
                                null,
                                10,
                                4,
                                5,
                                new Mix(0, 1, 0),
                                0,
                                0,
                                0,
                                1,
                                1));
        Gate gate = Gate.install("waits");
        Incoming record = new Incoming();
        try (Script.Player player = script.play(ScriptSplit.START, gate)) {
            assertThat(take(player, 100)).isEqualTo(4);
            assertThat(player.waiting()).isEqualTo(GeneratorScript.GATE_SAMPLE);
            gate.open(GeneratorScript.GATE_SAMPLE);
            assertThat(take(player, 100)).isEqualTo(6);
            assertThat(player.waiting()).isEqualTo(GeneratorScript.GATE_PRELOAD);
            gate.open(GeneratorScript.GATE_PRELOAD);
            assertThat(take(player, 100)).isEqualTo(5);
            assertThat(player.next(0, record)).isEqualTo(Script.Outcome.END);
        } finally {
            Gate.release("waits");
        }
    }

    @Test
    void refusesMixesThatRunEmpty() {
        assertThatThrownBy(() -> new Mix(1, 1, 2)).hasMessageContaining("deletes");
        assertThatThrownBy(() -> new Mix(0, 0, 0)).hasMessageContaining("ratio");
        assertThatThrownBy(() -> new Mix(-1, 3, 1)).hasMessageContaining("ratio");
    }

    private static int take(Script.Player player, int max) throws IOException {
        Incoming record = new Incoming();
        int taken = 0;
        while (taken < max && player.next(0, record) == Script.Outcome.RECORD) {
            taken++;
        }
        return taken;
    }

    private List<String> play(GeneratorScript script, ScriptSplit from, int max)
            throws IOException {
        List<String> records = new ArrayList<>();
        Incoming record = new Incoming();
        try (Script.Player player = script.play(from, Gate.find("open"))) {
            while (records.size() < max && player.next(0, record) == Script.Outcome.RECORD) {
                boolean delete = record.kind == Incoming.Kind.DELETE;
                records.add(record.kind + " " + record.id + (delete ? "" : " " + record.vector[0]));
            }
        }
        return records;
    }

    private GeneratorScript script(int preload, long limit, long rate, long duration)
            throws IOException {
        return new GeneratorScript(settings(new Mix(1, 3, 1), preload, limit, rate, duration, 1));
    }

    private GeneratorScript.Settings settings(
            Mix mix, int preload, long limit, long rate, long duration, long seed)
            throws IOException {
        String queries = DataFiles.floats(folder, "queries", QUERIES, 4).toString();
        return new GeneratorScript.Settings(
                vectors().toString(),
                queries,
                preload,
                -1,
                limit,
                mix,
                rate,
                duration,
                0,
                10,
                seed);
    }

    private Path vectors() throws IOException {
        return DataFiles.floats(folder, "vectors", ROWS, 4);
    }
}
