package io.vstream.flink.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.Incoming;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.NativeEmbedder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class EmbedOperatorTest {

    private static final int DIMENSION = 8;

    private final NativeEmbedder model =
            NativeEmbedder.open(DocumentOperatorTest.MODEL, "", 256, 1);

    @AfterEach
    void close() {
        model.close();
    }

    @Test
    void aBatchEndsWhenItIsFullOrLateOrBeforeABarrier() throws Exception {
        try (var harness = harness(DIMENSION)) {
            harness.setProcessingTime(0);
            send(harness, "a", "b");
            assertThat(harness.extractOutputValues()).isEmpty();
            send(harness, "c");
            assertThat(sent(harness)).isEqualTo(3);
            send(harness, "d");
            harness.setProcessingTime(4);
            assertThat(sent(harness)).isEqualTo(3);
            harness.setProcessingTime(5);
            assertThat(sent(harness)).isEqualTo(4);
            send(harness, "e");
            harness.prepareSnapshotPreBarrier(1);
            assertThat(sent(harness)).isEqualTo(5);
            send(harness, "f");
            harness.processWatermark(new Watermark(7));
            assertThat(sent(harness)).isEqualTo(6);
            send(harness, "g");
            harness.endInput();
            assertThat(sent(harness)).isEqualTo(7);
        }
    }

    @Test
    void theOrderStaysAndVectorsAreThoseOfTheModel() throws Exception {
        try (var harness = harness(DIMENSION)) {
            send(harness, "peace");
            harness.processElement(
                    DocumentOperatorTest.document(Incoming.Kind.DELETE, "x", null, Map.of()), 0);
            send(harness, "war", "trade");
            harness.processElement(
                    DocumentOperatorTest.document(Incoming.Kind.DELETE, "y", null, Map.of()), 0);
            List<Incoming> sent = harness.extractOutputValues();
            assertThat(sent)
                    .extracting(one -> one.fields.name())
                    .containsExactly("peace", "x", "war", "trade", "y");
            float[][] vectors = model.embed(List.of(utf8("peace"), utf8("war"), utf8("trade")));
            assertThat(sent.get(0).vector).isEqualTo(vectors[0]).hasSize(DIMENSION);
            assertThat(sent.get(3).vector).isEqualTo(vectors[2]);
            assertThat(sent).allMatch(one -> one.text == null);
        }
    }

    @Test
    void aModelThatDoesNotFitIsRefused() throws Exception {
        try (var harness = unopened(7)) {
            assertThatThrownBy(harness::open)
                    .hasMessageContaining("dimension 8 and collection.dimension is 7");
        }
        assertThatThrownBy(() -> NativeEmbedder.open("no/such/model", "", 0, 0))
                .isInstanceOf(EngineException.class)
                .extracting(error -> ((EngineException) error).kind())
                .isEqualTo(EngineException.Kind.IO);
    }

    private static OneInputStreamOperatorTestHarness<Incoming, Incoming> harness(int dimension)
            throws Exception {
        var harness = unopened(dimension);
        harness.open();
        return harness;
    }

    private static OneInputStreamOperatorTestHarness<Incoming, Incoming> unopened(int dimension)
            throws Exception {
        var harness =
                new OneInputStreamOperatorTestHarness<Incoming, Incoming>(
                        new EmbedOperator(DocumentOperatorTest.SETTINGS, dimension, 5, "sent"));
        harness.setup(Incoming.TYPE.createSerializer(null));
        return harness;
    }

    private static void send(
            OneInputStreamOperatorTestHarness<Incoming, Incoming> harness, String... texts)
            throws Exception {
        for (String text : texts) {
            harness.processElement(
                    DocumentOperatorTest.document(Incoming.Kind.UPSERT, text, text, Map.of()), 0);
        }
    }

    private static long sent(OneInputStreamOperatorTestHarness<Incoming, Incoming> harness) {
        return harness.extractOutputValues().size();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
