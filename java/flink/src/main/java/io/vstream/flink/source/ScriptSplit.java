package io.vstream.flink.source;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * The whole script, from a position on. It is the source's state in a checkpoint.
 *
 * @param position of the next record: its number, or its first byte in a file
 * @param playedNanos how long the paced part has been playing, for scripts whose end depends on it
 */
public record ScriptSplit(long position, long playedNanos) implements SourceSplit {

    /** The beginning. */
    public static final ScriptSplit START = new ScriptSplit(0, 0);

    @Override
    public String splitId() {
        return "script";
    }

    /** Bytes of a split in a checkpoint: two longs. */
    static final class Serializer implements SimpleVersionedSerializer<ScriptSplit> {

        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(ScriptSplit split) {
            return ByteBuffer.allocate(2 * Long.BYTES)
                    .putLong(split.position)
                    .putLong(split.playedNanos)
                    .array();
        }

        @Override
        public ScriptSplit deserialize(int version, byte[] bytes) throws IOException {
            if (version != VERSION || bytes.length != 2 * Long.BYTES) {
                throw new IOException("This build cannot read source state of version " + version);
            }
            ByteBuffer in = ByteBuffer.wrap(bytes);
            return new ScriptSplit(in.getLong(), in.getLong());
        }
    }
}
