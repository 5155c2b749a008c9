package io.vstream.flink.published;

import io.vstream.flink.handover.CommandAck;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * The partitions of a running job.
 *
 * @param published when, in milliseconds since 1970
 * @param collection normalised settings as JSON
 * @param addresses of the partitions, in their order
 */
public record PublishedPartitions(long published, String collection, List<ReadAddress> addresses) {

    private static final String NAME = "PARTITIONS";
    private static final int COLLECTION_BYTES_MAX = 1 << 20;
    private static final int PARTITIONS_MAX = 4_096;

    /** Where the file of these is. */
    public static Path path(Path folder) {
        return new Path(folder, NAME);
    }

    /** As the content of a file. */
    public byte[] toBytes() {
        DataOutputSerializer out = new DataOutputSerializer(1 << 10);
        try {
            out.writeLong(published);
            CommandAck.writeBytes(collection.getBytes(StandardCharsets.UTF_8), out);
            out.writeShort(addresses.size());
            for (ReadAddress address : addresses) {
                out.writeUTF(address.host());
                out.writeShort(address.port());
            }
        } catch (IOException e) {
            throw new IllegalStateException("Memory has taken no bytes.", e);
        }
        return out.getCopyOfBuffer();
    }

    /** Reads what {@link #toBytes} made. */
    public static PublishedPartitions of(byte[] bytes) throws IOException {
        DataInputDeserializer in = new DataInputDeserializer(bytes);
        long published = in.readLong();
        String collection =
                new String(CommandAck.readBytes(in, COLLECTION_BYTES_MAX), StandardCharsets.UTF_8);
        int count = in.readUnsignedShort();
        if (count == 0 || count > PARTITIONS_MAX) {
            throw new IOException("A job claims " + count + " partitions.");
        }
        List<ReadAddress> addresses = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            addresses.add(new ReadAddress(in.readUTF(), in.readUnsignedShort()));
        }
        return new PublishedPartitions(published, collection, addresses);
    }
}
