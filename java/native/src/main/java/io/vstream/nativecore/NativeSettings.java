package io.vstream.nativecore;

import java.util.Objects;

/** The settings of a collection, checked by the one schema, which is the engine's. */
public final class NativeSettings {

    private NativeSettings() {}

    /**
     * Validates a collection's settings and fills in every default.
     *
     * @param json one JSON object with kebab-case keys
     * @return the same settings, complete; what the other native calls take
     * @throws EngineException INVALID with a sentence that says what to change
     */
    public static String normalize(String json) {
        Objects.requireNonNull(json, "json");
        NativeLibrary.load();
        return Bridge.normalizeSettings(json);
    }
}
