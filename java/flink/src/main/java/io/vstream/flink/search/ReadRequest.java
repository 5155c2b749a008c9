package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.row.AskedBlock;
import io.vstream.nativecore.Asked;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * One question to a partition from outside the job.
 *
 * @param waitMillis how long the partition may wait, for {@code least} and for its turn
 * @param least how much of the vector stream must be behind the answer
 * @param k neighbours, 1 to 1,000
 * @param effort 0 automatic, -1 exact, or a number of leaves
 * @param vector the collection's dimension
 * @param asked what it asks beside the nearest rows
 */
public record ReadRequest(
        int waitMillis, Frontier least, int k, int effort, float[] vector, Asked asked) {

    /** Bytes of a request at most. */
    static final int BYTES_MAX = 1 << 20;

    private static final int K_MAX = 1_000;
    private static final int WAIT_MILLIS_MAX = 60_000;

    /** As bytes. */
    public byte[] toBytes() {
        DataOutputSerializer out = new DataOutputSerializer(256 + vector.length * Float.BYTES);
        try {
            out.writeInt(waitMillis);
            least.write(out);
            out.writeInt(k);
            out.writeInt(effort);
            out.writeInt(vector.length);
            for (float element : vector) {
                out.writeFloat(element);
            }
            AskedBlock.write(asked, out);
        } catch (IOException e) {
            throw new IllegalStateException("Memory has taken no bytes.", e);
        }
        return out.getCopyOfBuffer();
    }

    /**
     * Reads what {@link #toBytes} made, from whoever sent it.
     *
     * @param dimension of the collection
     * @throws IOException with a sentence for the reader, if it may not be answered
     */
    static ReadRequest of(byte[] bytes, int dimension) throws IOException {
        DataInputDeserializer in = new DataInputDeserializer(bytes);
        int waitMillis = in.readInt();
        Frontier least = Frontier.read(in);
        int k = in.readInt();
        int effort = in.readInt();
        int elements = in.readInt();
        if (k < 1 || k > K_MAX) {
            throw new IOException("k is " + k + ": ask for 1 to " + K_MAX + " rows.");
        }
        if (waitMillis < 0 || waitMillis > WAIT_MILLIS_MAX) {
            throw new IOException("A wait of " + waitMillis + " ms is out of range.");
        }
        if (effort < -1) {
            throw new IOException("An effort of " + effort + " is out of range.");
        }
        if (elements != dimension) {
            throw new IOException(
                    "The vector has " + elements + " elements; the collection has " + dimension);
        }
        float[] vector = new float[elements];
        for (int i = 0; i < elements; i++) {
            vector[i] = in.readFloat();
            if (!Float.isFinite(vector[i])) {
                throw new IOException("Element " + i + " of the vector is not finite.");
            }
        }
        Asked asked = AskedBlock.read(in);
        if (in.available() > 0) {
            throw new IOException("There are bytes behind the question.");
        }
        return new ReadRequest(waitMillis, least, k, effort, vector, asked);
    }
}
