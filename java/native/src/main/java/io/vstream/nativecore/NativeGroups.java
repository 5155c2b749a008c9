package io.vstream.nativecore;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** Where isolated groups of rows are. */
public final class NativeGroups {

    /** Most bytes of the name of a group in UTF-8; it has 1 at least. */
    public static final int NAME_BYTES_MAX = 512;

    private NativeGroups() {}

    /** True if a group of a job may have this name: the character 0 is for parts of groups. */
    public static boolean mayBe(String group) {
        return !group.isEmpty()
                && group.indexOf(0) < 0
                && group.length() <= NAME_BYTES_MAX
                && group.getBytes(StandardCharsets.UTF_8).length <= NAME_BYTES_MAX;
    }

    /**
     * The shard of a group, 0 to 127: a function of the name and the seed alone.
     *
     * @param seed of the collection
     * @throws EngineException INVALID for an empty name and for a long one
     */
    public static int shard(long seed, String group) {
        Objects.requireNonNull(group, "group");
        NativeLibrary.load();
        return Bridge.groupShard(seed, group.getBytes(StandardCharsets.UTF_8));
    }
}
