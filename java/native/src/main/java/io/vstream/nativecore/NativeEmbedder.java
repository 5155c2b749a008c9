package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Objects;

/**
 * A model that turns texts into vectors of length 1; {@code crates/embed} says which files it is.
 * For any thread; a transformer computes for one at a time.
 */
public final class NativeEmbedder implements AutoCloseable {

    /** Longest text, in bytes of UTF-8. */
    public static final int TEXT_BYTES_MAX = 1 << 16;

    private final NativeHandle handle;
    private final int dimension;

    private NativeEmbedder(long number) {
        this.handle = new NativeHandle("embedder", number, Bridge::embedderClose);
        this.dimension = Bridge.embedderDimension(number);
    }

    /**
     * Opens a model.
     *
     * @param model path of its folder, or of its {@code .onnx} or {@code .safetensors} file
     * @param runtime path of the shared library of ONNX Runtime; empty for none
     * @param tokensMax tokens of a text that a transformer reads; 0 for the usual number
     * @param threads that a transformer computes with; 0 for one
     * @throws EngineException IO, CORRUPT, UNSUPPORTED or INVALID with a sentence
     */
    public static NativeEmbedder open(String model, String runtime, int tokensMax, int threads) {
        Objects.requireNonNull(model, "model");
        Objects.requireNonNull(runtime, "runtime");
        NativeLibrary.load();
        return new NativeEmbedder(Bridge.embedderOpen(model, runtime, tokensMax, threads));
    }

    /** Numbers per vector. */
    public int dimension() {
        return dimension;
    }

    /**
     * Embeds a batch.
     *
     * @param texts in UTF-8, each of {@link #TEXT_BYTES_MAX} bytes at most
     * @return a vector for each; zeros for a text without tokens
     */
    public float[][] embed(List<byte[]> texts) {
        int bytes = 0;
        for (byte[] text : texts) {
            bytes = Math.addExact(bytes, Integer.BYTES + text.length);
        }
        ByteBuffer written = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (byte[] text : texts) {
            written.putInt(text.length).put(text);
        }
        byte[] found = Bridge.embedderEmbed(handle.number(), written.array());
        ByteBuffer numbers = ByteBuffer.wrap(found).order(ByteOrder.LITTLE_ENDIAN);
        float[][] vectors = new float[texts.size()][dimension];
        for (float[] vector : vectors) {
            for (int i = 0; i < dimension; i++) {
                vector[i] = numbers.getFloat();
            }
        }
        return vectors;
    }

    /** Frees the model; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
