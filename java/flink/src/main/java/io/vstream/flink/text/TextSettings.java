package io.vstream.flink.text;

import java.io.Serializable;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * How documents become chunks and texts become vectors.
 *
 * @param textKey key of a document's text in its record
 * @param chunkSize most characters of a chunk
 * @param chunkOverlap most characters that a chunk repeats of the one before
 * @param model path of the model
 * @param runtime path of the shared library of ONNX Runtime; empty for none
 * @param tokensMax tokens of a text that a transformer reads
 * @param threads that a transformer computes with, in each subtask
 * @param parallelism subtasks that embed documents, and as many again that embed questions
 * @param batch most texts that are embedded together
 */
public record TextSettings(
        String textKey,
        int chunkSize,
        int chunkOverlap,
        String model,
        String runtime,
        int tokensMax,
        int threads,
        int parallelism,
        int batch)
        implements Serializable {

    /** Reads the sections {@code documents} and {@code embedding} of a normalised job. */
    public static TextSettings fromJson(JsonNode documents, JsonNode embedding) {
        return new TextSettings(
                documents.path("text").asText("text"),
                documents.path("chunk").path("size").asInt(500),
                documents.path("chunk").path("overlap").asInt(100),
                embedding.path("model").asText(),
                embedding.path("runtime").asText(""),
                embedding.path("tokens").asInt(256),
                embedding.path("threads").asInt(1),
                embedding.path("parallelism").asInt(1),
                embedding.path("batch").asInt(32));
    }
}
