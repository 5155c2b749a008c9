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

class NativeStateTest {

    private static final int LAST = 127;

    @TempDir private Path folder;

    @Test
    void aSharedStateIsTheRowsOfItsMoment() throws IOException {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            Fixture.upsert(engine, 0, 300, 1);
            NativeState shared = engine.share();
            Fixture.upsert(engine, 0, 100, 2);
            Fixture.delete(engine, 100, 200, 2);
            Path state = upload(shared, "state");
            try (NativeEngine copy = NativeEngine.open(Fixture.L2, state, 0, LAST)) {
                assertThat(search(copy, vector(50), 1)).containsExactly("50/1");
                assertThat(search(copy, vector(150), 300)).hasSize(300);
            }
            assertThat(search(engine, vector(50), 1)).containsExactly("50/2");
            assertThat(search(engine, vector(50), 300)).hasSize(200);
        }
    }

    @Test
    void statesAreDividedAndUnited() throws IOException {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            Fixture.upsert(engine, 0, 256, 1);
            upload(engine.share(), "first");
            Fixture.upsert(engine, 3, 4, 2);
            Path whole = upload(engine.share(), "whole");
            try (NativeEngine low = create("low", 0, 10);
                    NativeEngine high = create("high", 11, LAST)) {
                assertThat(low.take(whole, 0, 10)).isEqualTo(22);
                assertThat(high.take(whole, 11, LAST)).isEqualTo(234);
                assertThat(search(low, vector(3), 1000)).hasSize(22).contains("3/2");
                assertThat(search(high, vector(3), 1000)).hasSize(234).doesNotContain("3/2");
                Path one = upload(low.share(), "one");
                Path two = upload(high.share(), "two");
                try (NativeEngine union = create("union", 5, 20)) {
                    assertThat(union.take(one, 5, 20) + union.take(two, 5, 20)).isEqualTo(32);
                    assertThat(search(union, vector(5), 1000)).hasSize(32);
                }
            }
        }
    }

    @Test
    void consecutiveStatesDifferByNewFiles() {
        try (NativeEngine engine = create("engine", 0, LAST)) {
            Fixture.upsert(engine, 0, 2560, 1);
            Set<String> before;
            try (NativeState first = engine.share()) {
                before = keys(first.files());
            }
            Fixture.upsert(engine, 0, 1, 2);
            try (NativeState second = engine.share()) {
                Set<String> fresh = new HashSet<>(keys(second.files()));
                fresh.removeAll(before);
                assertThat(fresh).hasSize(1);
                assertThat(second.files()).hasSize(2);
            }
        }
    }

    @Test
    void rowsBeyondTheMemoryLieInSegments() throws IOException {
        String settings = Fixture.L2.replaceFirst("\\{", "{\"memory\":65536,");
        Path state;
        try (NativeEngine engine =
                NativeEngine.createIn(settings, folder.resolve("engine"), 0, LAST)) {
            Fixture.upsert(engine, 0, 40_000, 1);
            // What the first begins, later ones find done.
            upload(engine.share(), "first");
            state = upload(engine.share(), "second");
            assertThat(search(engine, vector(9_999), 1)).containsExactly("9999/1");
        }
        assertThat(state).isDirectoryContaining("glob:**/segment-*");
        try (NativeEngine opened = NativeEngine.open(settings, state, 0, LAST)) {
            assertThat(search(opened, vector(9_999), 1)).containsExactly("9999/1");
            assertThat(search(opened, vector(39_999), 1000)).hasSize(1000);
        }
    }

    @Test
    void whatCannotBeIsRefused() throws IOException {
        NativeEngine plain = NativeEngine.create(Fixture.L2);
        assertFails(Kind.INVALID, "create it in a directory", plain::share);
        plain.close();
        NativeEngine engine = create("engine", 3, 5);
        assertFails(Kind.INVALID, "shard 6 is not among", () -> Fixture.upsert(engine, 6, 7, 1));
        Fixture.upsert(engine, 3, 5, 1);
        Path kept = upload(engine.share(), "kept");
        NativeState state = engine.share();
        state.close();
        state.close();
        assertFails(Kind.CLOSED, "state", state::files);
        assertFails(Kind.CLOSED, "state", state::manifest);
        assertFails(
                Kind.INVALID, "cannot change", () -> NativeEngine.open(Fixture.COSINE, kept, 3, 5));
        Files.write(kept.resolve(NativeState.MANIFEST), new byte[400]);
        assertFails(Kind.CORRUPT, "COLLECTION", () -> engine.take(kept, 3, 5));
        engine.close();
        assertFails(Kind.CLOSED, "engine", engine::share);
        assertFails(Kind.INVALID, "out of range", () -> create("none", -1, 5));
        assertFails(Kind.INVALID, "at least one shard", () -> create("none", 5, 4));
        assertFails(
                Kind.INVALID,
                "no collection",
                () -> NativeEngine.open(Fixture.L2, folder.resolve("missing"), 0, 5));
    }

    private NativeEngine create(String name, int first, int last) {
        return NativeEngine.createIn(Fixture.L2, folder.resolve(name), first, last);
    }

    private static Set<String> keys(List<NativeState.File> files) {
        return files.stream().map(NativeState.File::key).collect(Collectors.toSet());
    }

    private Path upload(NativeState shared, String name) throws IOException {
        Path state = Files.createDirectory(folder.resolve("state-" + name));
        try (shared) {
            for (NativeState.File file : shared.files()) {
                assertThat(Files.size(file.path())).isEqualTo(file.bytes());
                Files.copy(file.path(), state.resolve(file.name()));
            }
            Files.write(state.resolve(NativeState.MANIFEST), shared.manifest());
        }
        return state;
    }
}
