package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.vstream.flink.search.Folders;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A savepoint that this version wrote and that every later one opens. {@code make
 * savepoint-fixture} writes it again; what was released is kept beside it.
 */
class SavepointFixtureIT {

    private static final Path FIXTURES = Path.of("src/test/resources/savepoints");
    private static final String NEWEST = "0.1.0";

    /** It stops at the second gate; the rest of the script and its queries follow the restore. */
    private static final WriteScript SCRIPT =
            new WriteScript(8, 20260110, false, 600, 4_000, 40, 50_000, 1_000, 2_000, 4_000);

    @TempDir private Path folder;

    @ParameterizedTest
    @ValueSource(strings = NEWEST)
    void aSavepointOfEveryVersionIsRestored(String version) throws Exception {
        Path savepoint = folder.resolve("savepoint");
        copy(FIXTURES.resolve(version), savepoint);
        assertThat(size(savepoint)).isLessThan(1 << 20);
        assertThat(new Scenario(SCRIPT, folder).from(savepoint.toUri().toString()).differences(3))
                .isEmpty();
    }

    @Test
    void writeAgain() throws Exception {
        assumeThat(Boolean.getBoolean("vstream.fixture.write")).isTrue();
        Path savepoint = Path.of(java.net.URI.create(new Scenario(SCRIPT, folder).stopAt(1, 2)));
        Path fixture = FIXTURES.resolve(NEWEST);
        Folders.delete(fixture);
        copy(savepoint, fixture);
    }

    private static void copy(Path from, Path to) throws IOException {
        for (Path path : walk(from)) {
            Path target = to.resolve(from.relativize(path).toString());
            Files.createDirectories(target.getParent());
            Files.copy(path, target);
        }
    }

    private static List<Path> walk(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile).toList();
        }
    }

    private static long size(Path folder) throws IOException {
        return walk(folder).stream().mapToLong(SavepointFixtureIT::bytes).sum();
    }

    private static long bytes(Path file) {
        try {
            return Files.size(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
