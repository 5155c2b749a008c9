package io.vstream.nativecore;

import java.nio.file.Path;
import java.util.Objects;

/** Sealed rows on their way into an engine, see {@link NativeEngine#adopt}. */
public final class NativeAdoption implements AutoCloseable {

    private final NativeHandle handle;

    private NativeAdoption(long number) {
        this.handle = new NativeHandle("adoption", number, Bridge::adoptionClose);
    }

    /**
     * Opens what {@link NativeSnapshot#writeMoved} wrote and verifies every byte; any thread may.
     *
     * @param settingsJson the collection's settings
     * @throws EngineException INVALID if they do not fit the rows, CORRUPT or IO
     */
    public static NativeAdoption open(String settingsJson, Path directory) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        return new NativeAdoption(
                Bridge.adoptionOpen(settingsJson, NativeSnapshot.absolute(directory)));
    }

    long number() {
        return handle.number();
    }

    /** Lets go of the files; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
