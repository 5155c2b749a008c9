package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.assertFails;
import static io.vstream.nativecore.Fixture.search;
import static io.vstream.nativecore.Fixture.vector;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeCaptureTest {

    private static final int LAST = 127;

    @TempDir private Path folder;

    @Test
    void aCapturedStateIsTheRowsOfItsMoment() throws IOException {
        try (NativeEngine engine = assemble("engine", 0, LAST)) {
            Fixture.upsert(engine, 0, 300, 1);
            NativeCapture capture = engine.capture();
            Fixture.upsert(engine, 0, 100, 2);
            Fixture.delete(engine, 100, 200, 2);
            Path state = upload(capture, "state");
            try (NativeEngine copy = assemble("copy", 0, LAST, state)) {
                assertThat(search(copy, vector(50), 1)).containsExactly("50/1");
                assertThat(search(copy, vector(150), 300)).hasSize(300);
            }
            assertThat(search(engine, vector(50), 1)).containsExactly("50/2");
            assertThat(search(engine, vector(50), 300)).hasSize(200);
        }
    }

    @Test
    void statesAreDividedAndUnited() throws IOException {
        try (NativeEngine engine = assemble("engine", 0, LAST)) {
            Fixture.upsert(engine, 0, 256, 1);
            upload(engine.capture(), "first");
            Fixture.upsert(engine, 3, 4, 2);
            Path whole = upload(engine.capture(), "whole");
            Path again = upload(engine.capture(), "again");
            try (NativeEngine low = assemble("low", 0, 10, whole);
                    NativeEngine high = assemble("high", 11, LAST, again)) {
                assertThat(search(low, vector(3), 1000)).hasSize(22).contains("3/2");
                assertThat(search(high, vector(3), 1000)).hasSize(234).doesNotContain("3/2");
                Path one = upload(low.capture(), "one");
                Path two = upload(high.capture(), "two");
                try (NativeEngine union = assemble("union", 5, 20, one, two)) {
                    assertThat(search(union, vector(5), 1000)).hasSize(32);
                }
            }
        }
    }

    @Test
    void consecutiveStatesDifferByNewFiles() throws IOException {
        try (NativeEngine engine = assemble("engine", 0, LAST)) {
            Fixture.upsert(engine, 0, 2560, 1);
            Set<String> before;
            try (NativeCapture first = engine.capture()) {
                before = names(first.write());
            }
            Fixture.upsert(engine, 0, 1, 2);
            try (NativeCapture second = engine.capture()) {
                Set<String> fresh = new HashSet<>(names(second.write()));
                fresh.removeAll(before);
                assertThat(fresh).hasSizeBetween(1, 4);
            }
        }
    }

    @Test
    void whatCannotBeIsRefused() {
        NativeEngine plain = NativeEngine.create(Fixture.L2);
        assertFails(Kind.INVALID, "captures no state", plain::capture);
        plain.close();
        NativeEngine engine = assemble("engine", 3, 5);
        assertFails(Kind.INVALID, "shard 6 is not among", () -> Fixture.upsert(engine, 6, 7, 1));
        NativeCapture capture = engine.capture();
        assertFails(Kind.INVALID, "write it first", capture::manifest);
        capture.close();
        capture.close();
        assertFails(Kind.CLOSED, "capture", capture::write);
        engine.close();
        assertFails(Kind.CLOSED, "engine", engine::capture);
        assertFails(Kind.INVALID, "out of range", () -> assemble("none", -1, 5));
        assertFails(Kind.IO, "CAPTURED", () -> assemble("empty", 0, 5, folder));
    }

    private NativeEngine assemble(String name, int first, int last, Path... states) {
        return NativeEngine.assemble(
                Fixture.L2, folder.resolve(name), first, last, List.of(states));
    }

    private static Set<String> names(List<NativeCapture.File> files) {
        return files.stream().map(NativeCapture.File::name).collect(Collectors.toSet());
    }

    private Path upload(NativeCapture capture, String name) throws IOException {
        Path state = Files.createDirectory(folder.resolve("state-" + name));
        try (capture) {
            for (NativeCapture.File file : capture.write()) {
                assertThat(Files.size(file.path())).isEqualTo(file.bytes());
                Files.copy(file.path(), state.resolve(file.name()));
            }
            Files.write(state.resolve(NativeCapture.MANIFEST), capture.manifest());
        }
        return state;
    }
}
