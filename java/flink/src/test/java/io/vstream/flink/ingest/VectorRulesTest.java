package io.vstream.flink.ingest;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.VectorBatch;
import io.vstream.nativecore.Written;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class VectorRulesTest {

    @Test
    void refusesWhatBreaksARule() {
        VectorRules l2 = new VectorRules(2, false, Element.F32);
        assertThat(l2.refuseStored(new float[] {1, 2})).isNull();
        assertThat(l2.refuseStored(new float[] {0, 0})).isNull();
        assertThat(l2.refuseStored(new float[] {1})).isEqualTo(Reason.WRONG_DIMENSION);
        assertThat(l2.refuseStored(new float[] {1, Float.NaN})).isEqualTo(Reason.NOT_FINITE);
        assertThat(l2.refuseStored(new float[] {Float.POSITIVE_INFINITY, 1}))
                .isEqualTo(Reason.NOT_FINITE);
    }

    /** The border is the engine's: what passes here passes there, and the reverse. */
    @Test
    void normsAreRefusedWhereTheEngineRefusesThem() {
        int dimension = 64;
        VectorRules rules = new VectorRules(dimension, false, Element.F32);
        float[] vector = new float[dimension];
        float border = (float) (VectorRules.NORM_MAX / Math.sqrt(dimension));
        try (NativeEngine engine = NativeEngine.create(settings(dimension))) {
            int refused = 0;
            float value = border;
            for (int step = 0; step < 8; step++) {
                value = Math.nextDown(value);
            }
            for (int step = 0; step < 16; step++, value = Math.nextUp(value)) {
                Arrays.fill(vector, value);
                boolean isRefused = rules.refuseStored(vector) == Reason.NORM_TOO_LARGE;
                assertThat(rules.refuseQuery(vector) != null).isEqualTo(isRefused);
                assertThat(refusedBy(engine, vector)).as("%s", value).isEqualTo(isRefused);
                refused += isRefused ? 1 : 0;
            }
            assertThat(refused).isBetween(1, 15);
        }
    }

    private static String settings(int dimension) {
        return "{\"dimension\":" + dimension + ",\"metric\":\"l2\",\"encoder\":{\"kind\":\"id\"}}";
    }

    private static boolean refusedBy(NativeEngine engine, float[] vector) {
        VectorBatch batch = new VectorBatch(vector.length, 1);
        batch.upsert(1, 1, 0, 0, vector);
        List<Written.Refused> refused = engine.write(batch.buffer(), batch.count()).refused();
        assertThat(refused).allMatch(one -> one.text().contains("takes norms up to"));
        return !refused.isEmpty();
    }

    @Test
    void cosineNeedsADirectionInSinglePrecision() {
        VectorRules cosine = new VectorRules(2, true, Element.F32);
        assertThat(cosine.refuseQuery(new float[] {1e-3f, 0})).isNull();
        assertThat(cosine.refuseQuery(new float[] {0, -0f})).isEqualTo(Reason.ZERO_NORM);
        assertThat(cosine.refuseQuery(new float[] {Float.MIN_VALUE, 0})).isNull();
        assertThat(cosine.refuseQuery(new float[] {1e30f, 1e30f})).isNull();
        float max = Float.MAX_VALUE;
        assertThat(cosine.refuseQuery(new float[] {max, max})).isEqualTo(Reason.ZERO_NORM);
    }

    @Test
    void bytesAreWholeNumbersUpTo255() {
        VectorRules bytes = new VectorRules(2, false, Element.U8);
        assertThat(bytes.refuseStored(new float[] {0, 255})).isNull();
        assertThat(bytes.refuseStored(new float[] {0, 256})).isEqualTo(Reason.NOT_OF_ELEMENT);
        assertThat(bytes.refuseStored(new float[] {-1, 0})).isEqualTo(Reason.NOT_OF_ELEMENT);
        assertThat(bytes.refuseStored(new float[] {0.5f, 0})).isEqualTo(Reason.NOT_OF_ELEMENT);
        assertThat(bytes.refuseQuery(new float[] {0.5f, 1e6f})).isNull();
    }

    @Test
    void signedBytesAreWholeNumbersAroundZero() {
        VectorRules bytes = new VectorRules(2, false, Element.I8);
        assertThat(bytes.refuseStored(new float[] {-128, 127})).isNull();
        for (float bad : new float[] {-129, 128, 0.5f, 1e9f}) {
            assertThat(bytes.refuseStored(new float[] {0, bad})).isEqualTo(Reason.NOT_OF_ELEMENT);
        }
    }

    @Test
    void halvesRefuseWhatWouldBecomeInfinite() {
        VectorRules f16 = new VectorRules(1, false, Element.F16);
        assertThat(f16.refuseStored(new float[] {Math.nextDown(65_520f)})).isNull();
        assertThat(f16.refuseStored(new float[] {65_520})).isEqualTo(Reason.NOT_OF_ELEMENT);
        assertThat(f16.refuseStored(new float[] {-1e9f})).isEqualTo(Reason.NOT_OF_ELEMENT);
        assertThat(f16.refuseQuery(new float[] {1e9f})).isNull();
        VectorRules bf16 = new VectorRules(1, false, Element.BF16);
        assertThat(bf16.refuseStored(new float[] {-1e15f})).isNull();
        assertThat(bf16.refuseStored(new float[] {-3.38e38f})).isEqualTo(Reason.NORM_TOO_LARGE);
        assertThat(bf16.refuseStored(new float[] {Float.MAX_VALUE}))
                .isEqualTo(Reason.NOT_OF_ELEMENT);
    }

    @Test
    void everyNameOfAJobIsAnElement() {
        for (String name : new String[] {"f32", "f16", "bf16", "u8", "i8"}) {
            assertThat(Element.of(name).name()).isEqualToIgnoringCase(name);
        }
    }

    @Test
    void queriesAskForOneToAThousand() {
        assertThat(VectorRules.refuseQuery(1, 0)).isNull();
        assertThat(VectorRules.refuseQuery(1_000, -1)).isNull();
        assertThat(VectorRules.refuseQuery(0, 0)).isEqualTo(Reason.BAD_K);
        assertThat(VectorRules.refuseQuery(1_001, 0)).isEqualTo(Reason.BAD_K);
        assertThat(VectorRules.refuseQuery(10, -2)).isEqualTo(Reason.BAD_EFFORT);
    }
}
