package io.vstream.flink.published;

import io.vstream.flink.handover.CommandAck;
import java.io.IOException;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * The templates that say which partitions may hold an answer.
 *
 * @param run life of the job in which this was written; partitions answer with theirs
 * @param epoch of {@code newer}; 0 while no template was trained
 * @param changing true until every range has one owner: both templates count then
 * @param older the template before, empty if there was none
 * @param newer the template, empty if none was trained
 */
public record PublishedTemplates(
        long run, long epoch, boolean changing, byte[] older, byte[] newer) {

    private static final String NAME = "TEMPLATES";
    private static final int TEMPLATE_BYTES_MAX = 32 << 20;

    /** Where the file of these is. */
    public static Path path(Path folder) {
        return new Path(folder, NAME);
    }

    /** As the content of a file. */
    public byte[] toBytes() {
        DataOutputSerializer out = new DataOutputSerializer(64 + older.length + newer.length);
        try {
            out.writeLong(run);
            out.writeLong(epoch);
            out.writeBoolean(changing);
            CommandAck.writeBytes(older, out);
            CommandAck.writeBytes(newer, out);
        } catch (IOException e) {
            throw new IllegalStateException("Memory has taken no bytes.", e);
        }
        return out.getCopyOfBuffer();
    }

    /** Reads what {@link #toBytes} made. */
    public static PublishedTemplates of(byte[] bytes) throws IOException {
        DataInputDeserializer in = new DataInputDeserializer(bytes);
        return new PublishedTemplates(
                in.readLong(),
                in.readLong(),
                in.readBoolean(),
                CommandAck.readBytes(in, TEMPLATE_BYTES_MAX),
                CommandAck.readBytes(in, TEMPLATE_BYTES_MAX));
    }
}
