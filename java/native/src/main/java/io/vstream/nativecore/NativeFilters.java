package io.vstream.nativecore;

import java.util.Objects;

/**
 * Reads the filters of a collection: JSON in the form that users of Qdrant know, checked against
 * the attributes of the collection. Immutable; for any thread.
 */
public final class NativeFilters implements AutoCloseable {

    private final NativeHandle handle;

    private NativeFilters(long number) {
        this.handle = new NativeHandle("filters", number, Bridge::filtersClose);
    }

    /**
     * Begins to read filters.
     *
     * @param settingsJson the collection's settings
     * @throws EngineException INVALID if they are none
     */
    public static NativeFilters open(String settingsJson) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        return new NativeFilters(Bridge.filtersOpen(settingsJson));
    }

    /**
     * Compiles a filter.
     *
     * @param text JSON
     * @return the bytes for {@link Asked#filter}
     * @throws EngineException INVALID with a sentence that says what is wrong and where
     */
    public byte[] compile(String text) {
        Objects.requireNonNull(text, "text");
        return Bridge.filtersCompile(handle.number(), text);
    }

    /**
     * Checks an order of answers in a collection of isolated groups: words, a rank expression and
     * its parameters.
     *
     * @param json as {@link Asked#order} has it
     * @throws EngineException INVALID with a sentence that says what is wrong and where
     */
    public void checkOrder(String json) {
        Objects.requireNonNull(json, "json");
        Bridge.filtersCheckRanked(handle.number(), json);
    }

    /** Frees the reader; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
