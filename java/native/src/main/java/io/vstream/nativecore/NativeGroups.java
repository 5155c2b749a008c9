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
     * The shard of a group: the first bits of a hash of the name and the seed.
     *
     * @param seed of the collection
     * @param shards of the collection, a power of two up to 4,096; the shard is less
     * @throws EngineException INVALID for an empty name, for a long one and for another number
     */
    public static int shard(long seed, int shards, String group) {
        Objects.requireNonNull(group, "group");
        NativeLibrary.load();
        return Bridge.groupShard(seed, shards, group.getBytes(StandardCharsets.UTF_8));
    }
}
