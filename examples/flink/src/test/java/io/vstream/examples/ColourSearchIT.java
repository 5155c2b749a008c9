package io.vstream.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class ColourSearchIT {

    @Test
    void findsTheColoursThatAreLeft() throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ColourSearch.run(new PrintStream(out, true, StandardCharsets.UTF_8));
        assertThat(out.toString(StandardCharsets.UTF_8))
                .isEqualTo("nearest to red: [red, crimson, orange]" + System.lineSeparator());
    }
}
