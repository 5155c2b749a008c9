package io.vstream.nativecore;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.vstream.nativecore.EngineException.Kind;
import java.util.Arrays;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** One table of kinds: the golden file, this enum and failure.rs. */
class EngineExceptionTest {

    @BeforeAll
    static void load() {
        NativeLibrary.load();
    }

    @Test
    void codesAndNamesAreThoseOfTheGoldenTable() throws Exception {
        assertThat(Golden.lines("error-kinds.txt"))
                .isEqualTo(
                        Arrays.stream(Kind.values()).map(k -> k.code() + " " + k.name()).toList());
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void aNativeFailureArrivesWithItsKindAndMessage(Kind kind) {
        EngineException e = failure(kind.code(), "Zeile 1 \u2014 \u00e4\u00f6\u00fc \ud83d\ude80.");

        assertThat(e.kind()).isEqualTo(kind);
        assertThat(e).hasMessage("Zeile 1 \u2014 \u00e4\u00f6\u00fc \ud83d\ude80.");
        assertThat(e.getStackTrace()[0].getMethodName()).isEqualTo("fail");
    }

    @Test
    void anUnknownCodeIsADefect() {
        assertThat(Kind.ofCode(-1)).isEqualTo(Kind.INTERNAL);
        assertThat(Kind.ofCode(Kind.values().length)).isEqualTo(Kind.INTERNAL);
        assertThat(failure(77, "What?").kind()).isEqualTo(Kind.INTERNAL);
    }

    private static EngineException failure(int code, String message) {
        return catchThrowableOfType(EngineException.class, () -> NativeFaults.fail(code, message));
    }
}
