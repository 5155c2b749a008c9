package io.vstream.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class MailboxSearchIT {

    @Test
    void findsWhatIsUnreadInOneMailbox() throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        MailboxSearch.run(new PrintStream(out, true, StandardCharsets.UTF_8));
        assertThat(out.toString(StandardCharsets.UTF_8))
                .isEqualTo(
                        "{ann=[remember the invoice], bob=[a receipt], eve=[]}"
                                + System.lineSeparator());
    }
}
