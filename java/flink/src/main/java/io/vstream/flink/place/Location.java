package io.vstream.flink.place;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.SmallNumber;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Where the copies of a live record are: the keyed state of place. Immutable, so the state backend
 * never copies it.
 *
 * <p>Nearly every record has one copy, so the first is kept in plain fields and the arrays are
 * shared when empty: 48 bytes on the heap.
 */
final class Location {

    private static final int COPIES_MAX = 128;
    private static final long[] NO_CODES = new long[0];
    private static final short[] NO_SHARDS = new short[0];

    private final long version;
    private final long code;
    private final short shard;
    private final long[] moreCodes;
    private final short[] moreShards;

    private Location(long version, long code, short shard, long[] moreCodes, short[] moreShards) {
        this.version = version;
        this.code = code;
        this.shard = shard;
        this.moreCodes = moreCodes;
        this.moreShards = moreShards;
    }

    /**
     * @param version of the record
     * @param placements of its copies, one or more
     */
    static Location of(long version, Placements placements) {
        int more = placements.count() - 1;
        long[] codes = more == 0 ? NO_CODES : new long[more];
        short[] shards = more == 0 ? NO_SHARDS : new short[more];
        for (int i = 0; i < more; i++) {
            codes[i] = placements.code(i + 1);
            shards[i] = (short) placements.shard(i + 1);
        }
        return new Location(
                version, placements.code(0), (short) placements.shard(0), codes, shards);
    }

    /** The same copies of a newer version. */
    Location at(long newer) {
        return new Location(newer, code, shard, moreCodes, moreShards);
    }

    /** Version of the record. */
    long version() {
        return version;
    }

    /** How many copies there are, 1 or more. */
    int count() {
        return 1 + moreShards.length;
    }

    /** Shard of copy {@code i}. */
    int shard(int i) {
        return i == 0 ? shard : moreShards[i - 1];
    }

    /** Code of copy {@code i}. */
    long code(int i) {
        return i == 0 ? code : moreCodes[i - 1];
    }

    /**
     * Layout 2: version, number of copies, then code and shard of each. In layout 1 no shard takes
     * two bytes.
     */
    static final class LocationSerializer extends RecordSerializer<Location> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<Location> duplicate() {
            return this;
        }

        @Override
        public Location createInstance() {
            return new Location(0, 0, (short) 0, NO_CODES, NO_SHARDS);
        }

        @Override
        public Location copy(Location from) {
            return from;
        }

        @Override
        public void serialize(Location location, DataOutputView target) throws IOException {
            target.writeLong(location.version);
            target.writeByte(location.count());
            for (int i = 0; i < location.count(); i++) {
                target.writeLong(location.code(i));
                SmallNumber.write(location.shard(i), target);
            }
        }

        @Override
        public Location deserialize(DataInputView source) throws IOException {
            long version = source.readLong();
            int more = source.readUnsignedByte() - 1;
            if (more < 0 || more >= COPIES_MAX) {
                throw new IOException("A stored record claims " + (more + 1) + " copies.");
            }
            long code = source.readLong();
            short shard = (short) SmallNumber.read(source);
            long[] codes = more == 0 ? NO_CODES : new long[more];
            short[] shards = more == 0 ? NO_SHARDS : new short[more];
            for (int i = 0; i < more; i++) {
                codes[i] = source.readLong();
                shards[i] = (short) SmallNumber.read(source);
            }
            return new Location(version, code, shard, codes, shards);
        }

        @Override
        public TypeSerializerSnapshot<Location> snapshotConfiguration() {
            return new Layout();
        }
    }

    /** Layout of the bytes. */
    public static final class Layout extends RecordSerializer.Snapshot<Location> {
        /** Called by Flink. */
        public Layout() {
            super(2, 1);
        }

        @Override
        public TypeSerializer<Location> restoreSerializer() {
            return new LocationSerializer();
        }
    }
}
