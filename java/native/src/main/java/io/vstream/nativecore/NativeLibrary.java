package io.vstream.nativecore;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Locale;

/**
 * Finds, checks and loads the shared library that travels inside this jar.
 *
 * <ol>
 *   <li>Read the resource {@code native/OS-ARCH/libvstream.so} and compare it with the SHA-256 that
 *       lies beside it.
 *   <li>Write it to a new directory that only this user may enter, and load it from there. Each
 *       class loader gets its own copy, since a JVM refuses one path in two class loaders.
 *   <li>Unlink the copy at once: the mapping stays, and nothing is left behind by a killed JVM.
 * </ol>
 */
public final class NativeLibrary {

    private static final String FILE_NAME = "libvstream.so";
    private static boolean loaded;

    private NativeLibrary() {}

    /**
     * Loads the library if this class loader has not loaded it yet; cheap afterwards.
     *
     * @throws EngineException UNSUPPORTED on a platform without a library, CORRUPT if the jar's
     *     bytes do not match their checksum, IO if the copy cannot be written or loaded
     */
    public static synchronized void load() {
        if (loaded) {
            return;
        }
        String resource = "native/" + platform(System.getProperty("os.name"), arch()) + "/";
        byte[] library = read(resource + FILE_NAME);
        String expected =
                new String(read(resource + FILE_NAME + ".sha256"), StandardCharsets.UTF_8);
        verify(library, expected.strip(), resource + FILE_NAME);
        loadCopy(library);
        loaded = true;
    }

    /**
     * True if this jar has a library for this platform. A program that only submits a job may run
     * on a platform that has none.
     */
    public static boolean available() {
        try {
            String folder = platform(System.getProperty("os.name"), arch());
            return NativeLibrary.class
                            .getClassLoader()
                            .getResource("native/" + folder + "/" + FILE_NAME)
                    != null;
        } catch (EngineException e) {
            return false;
        }
    }

    /** Folder name of an operating system and architecture, as the build names them. */
    static String platform(String osName, String arch) {
        String os = osName.toLowerCase(Locale.ROOT);
        String cpu =
                switch (arch) {
                    case "amd64", "x86_64" -> "x86_64";
                    case "aarch64", "arm64" -> "aarch64";
                    default -> null;
                };
        if (!os.startsWith("linux") || cpu == null) {
            throw new EngineException(
                    EngineException.Kind.UNSUPPORTED,
                    "VStream has no native library for "
                            + osName
                            + " on "
                            + arch
                            + "; run it on Linux, x86_64 or aarch64.");
        }
        return "linux-" + cpu;
    }

    /** Refuses bytes whose SHA-256 is not {@code expectedHex}. */
    static void verify(byte[] bytes, String expectedHex, String name) {
        String found;
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            found = HexFormat.of().formatHex(digest.digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new EngineException(
                    EngineException.Kind.UNSUPPORTED, "This JVM offers no SHA-256.", e);
        }
        if (!found.equalsIgnoreCase(expectedHex)) {
            throw new EngineException(
                    EngineException.Kind.CORRUPT,
                    "The checksum of " + name + " does not match; replace the vstream-native jar.");
        }
    }

    private static String arch() {
        return System.getProperty("os.arch");
    }

    private static byte[] read(String resource) {
        try (InputStream in = NativeLibrary.class.getClassLoader().getResourceAsStream(resource)) {
            if (in == null) {
                throw new EngineException(
                        EngineException.Kind.UNSUPPORTED,
                        "The vstream-native jar has no "
                                + resource
                                + "; use a jar that was built for this platform.");
            }
            return in.readAllBytes();
        } catch (IOException e) {
            throw new EngineException(
                    EngineException.Kind.IO, "Cannot read " + resource + " from the jar.", e);
        }
    }

    private static void loadCopy(byte[] library) {
        Path directory = null;
        Path copy = null;
        try {
            directory =
                    Files.createTempDirectory(
                            "vstream-native-" + ProcessHandle.current().pid() + "-",
                            PosixFilePermissions.asFileAttribute(
                                    PosixFilePermissions.fromString("rwx------")));
            copy = directory.resolve(FILE_NAME);
            Files.write(copy, library);
            System.load(copy.toString());
        } catch (IOException | UnsatisfiedLinkError e) {
            throw new EngineException(
                    EngineException.Kind.IO,
                    "Cannot load the native library from the temporary directory ("
                            + e.getMessage()
                            + "); point -Djava.io.tmpdir at a writable directory on a file system"
                            + " that is not mounted noexec.",
                    e);
        } finally {
            deleteQuietly(copy);
            deleteQuietly(directory);
        }
    }

    /** A copy that cannot be unlinked costs disk space only, so it does not fail the load. */
    private static void deleteQuietly(Path path) {
        if (path == null) {
            return;
        }
        try {
            Files.deleteIfExists(path);
        } catch (IOException e) {
            System.getLogger(NativeLibrary.class.getName())
                    .log(System.Logger.Level.WARNING, "Cannot delete " + path + ".", e);
        }
    }
}
