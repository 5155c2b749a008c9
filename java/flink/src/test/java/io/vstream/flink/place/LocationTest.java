package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.SplittableRandom;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

class LocationTest {

    private static final int DIMENSION = 4;
    private static final String COLLECTION =
            """
            {"dimension": 4, "metric": "l2", "shards": 4096,
             "encoder": {"kind": "lsh", "families": 8, "hashes": 4, "bits": 6}}
            """;

    private final Location.LocationSerializer serializer = new Location.LocationSerializer();

    @Test
    void shardsBeyondAByteAreKept() throws IOException {
        SplittableRandom random = new SplittableRandom(3);
        int rows = 5_000;
        ByteBuffer sample = BufferLayout.allocate(rows * DIMENSION * Float.BYTES);
        for (int i = 0; i < rows * DIMENSION; i++) {
            sample.putFloat(i * Float.BYTES, (float) random.nextGaussian());
        }
        boolean large = false;
        int most = 0;
        try (NativeRouter router = NativeRouter.train(COLLECTION, sample, rows, 1)) {
            assertThat(router.shards()).isEqualTo(4_096);
            Placements placements = new Placements(DIMENSION, router);
            for (int row = 0; row < 200; row++) {
                float[] vector = new float[DIMENSION];
                for (int i = 0; i < DIMENSION; i++) {
                    vector[i] = (float) random.nextGaussian();
                }
                placements.place(row, vector);
                Location location = Location.of(row, placements);
                Location read = read(bytes(location));
                assertThat(read.version()).isEqualTo(row);
                assertThat(read.count()).isEqualTo(location.count());
                for (int copy = 0; copy < read.count(); copy++) {
                    assertThat(read.shard(copy)).isEqualTo(placements.shard(copy));
                    assertThat(read.code(copy)).isEqualTo(placements.code(copy));
                    large |= read.shard(copy) > 255;
                    assertThat(router.shardOf(read.code(copy))).isEqualTo(read.shard(copy));
                }
                most = Math.max(most, read.count());
            }
        }
        assertThat(large).isTrue();
        assertThat(most).isGreaterThan(1);
    }

    /** Layout 1 has a byte for each shard. */
    @Test
    void theFirstLayoutIsReadAndAUsualLocationStillHasItsBytes() throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(32);
        out.writeLong(9);
        out.writeByte(2);
        out.writeLong(-5);
        out.writeByte(127);
        out.writeLong(6);
        out.writeByte(0);
        Location read = read(out.getCopyOfBuffer());
        assertThat(read.version()).isEqualTo(9);
        assertThat(read.count()).isEqualTo(2);
        assertThat(read.shard(0)).isEqualTo(127);
        assertThat(read.shard(1)).isZero();
        assertThat(bytes(read)).isEqualTo(out.getCopyOfBuffer());
        serializer
                .snapshotConfiguration()
                .readSnapshot(1, new DataInputDeserializer(new byte[0]), null);
    }

    private byte[] bytes(Location location) throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(32);
        serializer.serialize(location, out);
        return out.getCopyOfBuffer();
    }

    private Location read(byte[] bytes) throws IOException {
        DataInputDeserializer in = new DataInputDeserializer(bytes);
        Location read = serializer.deserialize(in);
        assertThat(in.available()).isZero();
        return read;
    }
}
