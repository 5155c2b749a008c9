package io.vstream.flink.merge;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.search.Neighbors;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GatheringTest {

    private static final Ticket TICKET = new Ticket(1, 2, 10, 0, 0, true);

    private final Gathering.GatheringSerializer serializer = new Gathering.GatheringSerializer();

    @ParameterizedTest
    @ValueSource(ints = {1, 64, 128, 129, 300, 4_096})
    void everyPartitionCountsOnceAlsoAfterARestore(int partitions) throws IOException {
        Gathering gathering = new Gathering(TICKET, partitions);
        for (int partition = partitions - 1; partition >= 0; partition--) {
            assertThat(gathering.complete()).isFalse();
            assertThat(gathering.see(partition)).isTrue();
            gathering.rows().add(Neighbors.NONE);
            if (partition % 97 == 0) {
                gathering = partition % 2 == 0 ? restored(gathering) : serializer.copy(gathering);
            }
            assertThat(gathering.see(partition)).isFalse();
        }
        assertThat(gathering.complete()).isTrue();
        assertThat(gathering.rows()).hasSize(partitions);
    }

    @Test
    void aCopyHasBitsOfItsOwn() {
        Gathering gathering = new Gathering(TICKET, 300);
        gathering.see(299);
        Gathering copy = serializer.copy(gathering);
        assertThat(copy.see(3)).isTrue();
        assertThat(gathering.see(3)).isTrue();
        assertThat(copy.see(299)).isFalse();
    }

    /** Two words of bits and a byte of flags, as layout 3 has them. */
    @Test
    void aQueryOfTheFirst128PartitionsIsWrittenAsInTheThirdLayout() throws IOException {
        Gathering gathering = new Gathering(TICKET, 2);
        gathering.see(127);
        byte[] usual = bytes(gathering);
        gathering.see(128);
        assertThat(bytes(gathering)).hasSize(usual.length + 1 + Long.BYTES);
        assertThat(usual[usual.length - 1]).isZero();
        serializer
                .snapshotConfiguration()
                .readSnapshot(3, new DataInputDeserializer(new byte[0]), null);
    }

    /** Rows by distance stand as they did in layout 4; the order of others is kept in all bits. */
    @Test
    void rowsKeepTheirOrder() throws IOException {
        Gathering gathering = new Gathering(TICKET, 2);
        gathering.rows().add(new Neighbors(new long[1], new long[1], new float[1]));
        int before = bytes(gathering).length;
        double[] order = {1.7e12, 1.7e12 + 1};
        float[] distances = {1.7e12f, 1.7e12f};
        gathering.rows().add(new Neighbors(new long[2], new long[2], distances, order, null));
        assertThat(bytes(gathering)).hasSize(before + 4 + 2 * 28);
        Gathering read = restored(gathering);
        assertThat(read.rows().get(0).order()).isEmpty();
        assertThat(read.rows().get(1).order()).isEqualTo(order);
        serializer
                .snapshotConfiguration()
                .readSnapshot(4, new DataInputDeserializer(new byte[0]), null);
    }

    @Test
    void bitsOfMorePartitionsThanThereCanBeAreRefused() throws IOException {
        Gathering gathering = new Gathering(TICKET, 300);
        gathering.see(299);
        byte[] bytes = bytes(gathering);
        int words = bytes.length - 1 - 3 * Long.BYTES;
        assertThat(bytes[words]).isEqualTo((byte) 5);
        for (int bad : new int[] {0, 2, 65, 255}) {
            bytes[words] = (byte) bad;
            assertThatThrownBy(() -> serializer.deserialize(new DataInputDeserializer(bytes)))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("bits in " + bad + " words");
        }
    }

    private Gathering restored(Gathering gathering) throws IOException {
        DataInputDeserializer in = new DataInputDeserializer(bytes(gathering));
        Gathering read = serializer.deserialize(in);
        assertThat(in.available()).isZero();
        return read;
    }

    private byte[] bytes(Gathering gathering) throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(64);
        serializer.serialize(gathering, out);
        return out.getCopyOfBuffer();
    }
}
