package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.assertFails;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class NativeLibraryTest {

    @Test
    void loadingAgainDoesNothing() {
        NativeLibrary.load();
        NativeLibrary.load();
        assertThat(NativeSettings.normalize(Fixture.L2)).contains("\"dimension\":7");
    }

    @Test
    void anotherClassLoaderLoadsItsOwnCopy() throws Exception {
        NativeLibrary.load();
        URL classes = NativeLibrary.class.getProtectionDomain().getCodeSource().getLocation();
        for (int round = 0; round < 2; round++) {
            try (URLClassLoader other = new URLClassLoader(new URL[] {classes}, null)) {
                Class<?> settings = other.loadClass(NativeSettings.class.getName());
                assertThat(settings).isNotSameAs(NativeSettings.class);
                Object json =
                        settings.getMethod("normalize", String.class).invoke(null, Fixture.L2);
                assertThat(json).isEqualTo(NativeSettings.normalize(Fixture.L2));
            }
        }
    }

    /**
     * The recall guard of an engine is a native thread that ends some time after {@code close}. A
     * library that was unmapped with its class loader would pull the code from under it.
     */
    @Test
    @Timeout(60)
    void theLibraryOutlivesItsClassLoader() throws Exception {
        long before = mappedCopies();
        WeakReference<Class<?>> dropped = new WeakReference<>(loadAnotherCopy());
        while (dropped.get() != null) {
            System.gc();
            Thread.sleep(10);
        }
        assertThat(mappedCopies()).isEqualTo(before + 1);
    }

    private static Class<?> loadAnotherCopy() throws Exception {
        URL classes = NativeLibrary.class.getProtectionDomain().getCodeSource().getLocation();
        try (URLClassLoader other = new URLClassLoader(new URL[] {classes}, null)) {
            Class<?> library = other.loadClass(NativeLibrary.class.getName());
            library.getMethod("load").invoke(null);
            return library;
        }
    }

    private static long mappedCopies() throws IOException {
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.filter(line -> line.contains("libvstream.so"))
                    .map(line -> line.replaceFirst(".* /", "/"))
                    .distinct()
                    .count();
        }
    }

    @Test
    void nothingStaysBehindInTheTemporaryDirectory() throws Exception {
        NativeLibrary.load();
        String mine = "vstream-native-" + ProcessHandle.current().pid() + "-";
        try (Stream<Path> left = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
            assertThat(left.filter(path -> path.getFileName().toString().startsWith(mine)))
                    .isEmpty();
        }
    }

    @Test
    void platformsAreNamedOrRefused() {
        assertThat(NativeLibrary.platform("Linux", "amd64")).isEqualTo("linux-x86_64");
        assertThat(NativeLibrary.platform("Linux", "aarch64")).isEqualTo("linux-aarch64");
        assertFails(
                Kind.UNSUPPORTED,
                "Windows 11 on amd64",
                () -> NativeLibrary.platform("Windows 11", "amd64"));
        assertFails(
                Kind.UNSUPPORTED,
                "Linux on riscv64",
                () -> NativeLibrary.platform("Linux", "riscv64"));
    }

    @Test
    void aChangedLibraryIsRefused() {
        String empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        NativeLibrary.verify(new byte[0], empty, "x");
        assertFails(
                Kind.CORRUPT,
                "checksum of x",
                () -> NativeLibrary.verify(new byte[] {1}, empty, "x"));
    }
}
