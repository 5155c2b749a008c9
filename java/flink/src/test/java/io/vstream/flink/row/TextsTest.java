package io.vstream.flink.row;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TextsTest {

    /** The same texts mean the same in filters, which Rust reads. */
    @ParameterizedTest
    @CsvSource({
        "1970-01-01, 0",
        "1970-01-01T00:00:00.0019Z, 1",
        "1969-12-31T23:59:59.9999Z, -1",
        "2024-05-01T12:30:00+02:00, 1714559400000",
        "2024-05-01 10:30:00, 1714559400000",
        "2024-05-01T10:30Z, 1714559400000",
        "9999-12-31T23:59:59.999Z, 253402300799999",
        "9999-12-31, 253402214400000",
    })
    void momentsAreReadAsFiltersReadThem(String text, long millis) {
        assertThat(Texts.moment(text)).isEqualTo(millis);
    }

    @Test
    void whatIsNoMomentIsNone() {
        for (String text :
                new String[] {
                    "", "soon", "12:30", "2024-13-01", "2024-05-01T25:00", "2024-05-01T12:00:00[Z]"
                }) {
            assertThat(Texts.moment(text)).as(text).isNull();
        }
    }
}
