package io.vstream.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class ShopSearchIT {

    @Test
    void findsWhatIsCheapAndInStock() throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ShopSearch.run(new PrintStream(out, true, StandardCharsets.UTF_8));
        assertThat(out.toString(StandardCharsets.UTF_8))
                .isEqualTo(
                        "[the chair for 48.0, the stool for 19.0, the table for 30.0]"
                                + System.lineSeparator());
    }
}
