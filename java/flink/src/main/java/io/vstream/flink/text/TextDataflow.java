package io.vstream.flink.text;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.NativeEmbedder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * The steps before a search whose records come with texts.
 *
 * <pre>
 * documents -> read -> keyBy(document) -> split -> by document -> embed -> (decode)
 * questions -> read -> in turn ----------------------------> embed-questions -> (decode)
 * </pre>
 *
 * Source offsets do not pass: an answer says its watermark and no offsets.
 */
public final class TextDataflow {

    /** A chunk waits so long for others of its batch. */
    private static final long CHUNK_WAIT_MILLIS = 5;

    /** A question waits so long; nearly nothing, since somebody waits for it. */
    private static final long QUESTION_WAIT_MILLIS = 1;

    private TextDataflow() {}

    /**
     * Adds what turns documents into rows with vectors.
     *
     * @param schema of the collection
     * @param dimension of the collection
     * @param partitions subtasks that cut documents
     */
    public static DataStream<Incoming> documents(
            DataStream<Incoming> records,
            TextSettings settings,
            Schema schema,
            int dimension,
            int partitions) {
        return records.process(
                        new ReadFunction(
                                schema.ofTexts(settings.textKey()), 1, Names.DOCUMENTS_READ))
                .returns(Incoming.TYPE)
                .setParallelism(records.getParallelism())
                .name("read-documents")
                .uid("read-documents")
                .keyBy(document -> document.id, Types.LONG)
                .transform("split", Incoming.TYPE, new DocumentOperator(settings, schema))
                .setParallelism(partitions)
                .uid("split")
                .partitionCustom(TextDataflow::subtask, chunk -> chunk.document)
                .transform(
                        "embed",
                        Incoming.TYPE,
                        new EmbedOperator(
                                settings, dimension, CHUNK_WAIT_MILLIS, Names.CHUNKS_EMBEDDED))
                .setParallelism(settings.parallelism())
                .uid("embed");
    }

    /**
     * Adds what turns questions into queries with vectors.
     *
     * @param schema of the collection
     * @param dimension of the collection
     * @param k neighbours of a question that does not say
     */
    public static DataStream<Incoming> questions(
            DataStream<Incoming> records,
            TextSettings settings,
            Schema schema,
            int dimension,
            int k) {
        return records.process(
                        new ReadFunction(
                                schema.ofTexts(settings.textKey()), k, Names.QUESTIONS_READ))
                .returns(Incoming.TYPE)
                .setParallelism(records.getParallelism())
                .name("read-questions")
                .uid("read-questions")
                .rebalance()
                .transform(
                        "embed-questions",
                        Incoming.TYPE,
                        new EmbedOperator(
                                settings,
                                dimension,
                                QUESTION_WAIT_MILLIS,
                                Names.QUESTIONS_EMBEDDED))
                .setParallelism(settings.parallelism())
                .uid("embed-questions");
    }

    /**
     * Opens the model of a job once, before the job starts.
     *
     * @throws IllegalArgumentException with a sentence if it cannot be opened or does not fit
     */
    public static void check(TextSettings settings, int dimension) {
        try (NativeEmbedder model =
                NativeEmbedder.open(
                        settings.model(),
                        settings.runtime(),
                        settings.tokensMax(),
                        settings.threads())) {
            refuseDimension(model.dimension(), dimension);
        } catch (EngineException e) {
            throw new IllegalArgumentException("embedding.model: " + e.getMessage(), e);
        }
    }

    static void refuseDimension(int model, int collection) {
        if (model != collection) {
            throw new IllegalArgumentException(
                    "embedding.model makes vectors of dimension "
                            + model
                            + " and collection.dimension is "
                            + collection
                            + "; make them equal.");
        }
    }

    private static int subtask(Long document, int subtasks) {
        return Math.floorMod(Long.hashCode(document), subtasks);
    }
}
