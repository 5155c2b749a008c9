package io.vstream.flink.route;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.nativecore.NativeGroups;
import java.io.IOException;
import java.util.Arrays;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A group that is too large for one partition. It goes on as several <i>slices</i>, by a hash of
 * the id, and each slice is a group of its own to the partition that has it. Rows that were written
 * before stay under the name of the group.
 *
 * <p>The slices are equally far apart among 128 stretches of the shards, so that the partitions
 * share them at any parallelism. Their names follow from the group's name, the seed and their
 * number alone: the name, the character 0, which no name of a group has, and the first number that
 * leads to the wanted stretch.
 */
public final class SpreadGroup {

    /** Most slices of a group. */
    public static final int SLICES_MAX = 64;

    /** Longest name, in UTF-8, of a group that may be spread: slices have longer ones. */
    public static final int NAME_BYTES_MAX = NativeGroups.NAME_BYTES_MAX - 8;

    private static final int LEAST = 8;

    /** Stretches of the line of shards in which slices are placed. */
    private static final int STRETCHES = ShardKeys.USUAL;

    private static final int TRIES = 1 << 20;

    /** Type of a stream of these. */
    public static final RecordType<SpreadGroup> TYPE =
            RecordType.of(SpreadGroup.class, SpreadGroupSerializer::new);

    private final String group;
    private final long seed;
    private final ShardKeys keys;
    private final int shard;
    private final String[] names;
    private final int[] shards;

    /**
     * Finds the slices. Cost: some hundred hashes.
     *
     * @param group whose name has {@link #NAME_BYTES_MAX} bytes at most
     * @param seed of the collection
     * @param keys of the collection
     * @param slices 1 to {@link #SLICES_MAX}
     */
    public SpreadGroup(String group, long seed, ShardKeys keys, int slices) {
        this.group = group;
        this.seed = seed;
        this.keys = keys;
        shard = NativeGroups.shard(seed, keys.shards(), group);
        names = new String[slices];
        shards = new int[slices];
        int shardsOfStretch = keys.shards() / STRETCHES;
        int apart = STRETCHES / slices;
        int left = slices;
        for (int number = 0; left > 0; number++) {
            if (number == TRIES) {
                throw new IllegalStateException("No names for the slices of a group were found.");
            }
            String name = group + '\0' + Integer.toString(number, Character.MAX_RADIX);
            int found = NativeGroups.shard(seed, keys.shards(), name);
            // The first slice is half a step away from the group, where rows are already.
            int steps =
                    Math.floorMod(
                            found / shardsOfStretch - shard / shardsOfStretch - apart / 2,
                            STRETCHES);
            int slice = steps / apart;
            if (steps % apart == 0 && slice < slices && names[slice] == null) {
                names[slice] = name;
                shards[slice] = found;
                left--;
            }
        }
    }

    /** Slices for a job of so many partitions: some for each, also if it grows a little. */
    public static int slices(int partitions) {
        return Math.min(SLICES_MAX, Math.max(LEAST, partitions));
    }

    /** Name of the whole group. */
    public String group() {
        return group;
    }

    /** Shard of the rows that were written before the group was spread. */
    public int shard() {
        return shard;
    }

    /** How many slices there are. */
    public int slices() {
        return names.length;
    }

    /** Name of a slice, 0 to {@link #slices} - 1. */
    public String name(int slice) {
        return names[slice];
    }

    /** Shard of a slice. */
    public int shard(int slice) {
        return shards[slice];
    }

    /** The slice of an id. */
    public int sliceOf(long id) {
        long mixed = (id ^ id >>> 32) * 0x9e3779b97f4a7c15L;
        return (int) Math.multiplyHigh(mixed >>> 1, (long) names.length << 1);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof SpreadGroup that
                && group.equals(that.group)
                && seed == that.seed
                && keys.equals(that.keys)
                && Arrays.equals(names, that.names);
    }

    @Override
    public int hashCode() {
        return group.hashCode();
    }

    @Override
    public String toString() {
        return group + " in " + names.length + " slices";
    }

    /**
     * Layout 2: the name, the seed, the number of slices; with another number of shards than {@link
     * ShardKeys#USUAL}, which layout 1 does not know, that number plus 128, and then the number of
     * shards.
     */
    public static final class SpreadGroupSerializer extends RecordSerializer<SpreadGroup> {
        private static final long serialVersionUID = 1L;
        private static final int HAS_SHARDS = 128;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<SpreadGroup> duplicate() {
            return this;
        }

        @Override
        public SpreadGroup createInstance() {
            return new SpreadGroup("none", 0, ShardKeys.of(ShardKeys.USUAL), 1);
        }

        @Override
        public SpreadGroup copy(SpreadGroup from) {
            return from;
        }

        @Override
        public void serialize(SpreadGroup spread, DataOutputView target) throws IOException {
            target.writeUTF(spread.group);
            target.writeLong(spread.seed);
            boolean usual = spread.keys.shards() == ShardKeys.USUAL;
            target.writeByte(spread.slices() | (usual ? 0 : HAS_SHARDS));
            if (!usual) {
                target.writeShort(spread.keys.shards());
            }
        }

        @Override
        public SpreadGroup deserialize(DataInputView source) throws IOException {
            String group = source.readUTF();
            long seed = source.readLong();
            int head = source.readUnsignedByte();
            int slices = head & HAS_SHARDS - 1;
            int shards = (head & HAS_SHARDS) == 0 ? ShardKeys.USUAL : source.readUnsignedShort();
            if (!NativeGroups.mayBe(group) || slices < 1 || slices > SLICES_MAX) {
                throw new IOException("A group that was spread claims " + slices + " slices.");
            }
            return new SpreadGroup(group, seed, ShardKeys.of(shards), slices);
        }

        @Override
        public TypeSerializerSnapshot<SpreadGroup> snapshotConfiguration() {
            return new Layout();
        }
    }

    /** Layout of the bytes. */
    public static final class Layout extends RecordSerializer.Snapshot<SpreadGroup> {
        /** Called by Flink. */
        public Layout() {
            super(2, 1);
        }

        @Override
        public TypeSerializer<SpreadGroup> restoreSerializer() {
            return new SpreadGroupSerializer();
        }
    }
}
