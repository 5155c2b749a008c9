package io.vstream.flink.row;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.RowFields;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class AttributesEncoderTest {

    private final AttributesEncoder encoder = new AttributesEncoder(Shop.NUMBERS);

    /**
     * The attributes of records-fields.hex, which buffer/tests.rs builds with Rust's own builder.
     */
    @Test
    void theBytesAreThoseOfRust() {
        // In another order than the columns.
        set("since", Instant.ofEpochMilli(-1));
        set("price", 9.5);
        set("colour", "red");
        set("new", true);
        set("tags", List.of("a", "bc"));
        assertThat(HexFormat.of().formatHex(encoder.build()))
                .isEqualTo(
                        "00000003000000726564"
                                + "010001020001006102006263"
                                + "0200030000000000002340"
                                + "04000401"
                                + "050005ffffffffffffffff");
    }

    static Stream<Arguments> accepted() {
        return Stream.of(
                Arguments.of("price", 3, 3.0),
                Arguments.of("price", new BigInteger("100000000000000000000"), 1e20),
                Arguments.of("price", -0.5f, -0.5),
                Arguments.of("stock", 3.0, 3L),
                Arguments.of("stock", Long.MIN_VALUE, Long.MIN_VALUE),
                Arguments.of("stock", new BigDecimal("12.00"), 12L),
                Arguments.of("stock", new BigInteger("9223372036854775807"), Long.MAX_VALUE),
                Arguments.of("colour", "", ""),
                Arguments.of("tags", List.of(), List.of()),
                Arguments.of("tags", new String[] {"\u00e9"}, List.of("\u00e9")),
                Arguments.of("since", 5L, Instant.ofEpochMilli(5)),
                Arguments.of(
                        "since",
                        "2024-05-01T12:00:00.25+02:00",
                        Instant.parse("2024-05-01T10:00:00.25Z")));
    }

    @ParameterizedTest
    @MethodSource
    void accepted(String name, Object given, Object read) {
        set(name, given);
        assertThat(AttributeValues.read(Shop.NUMBERS, encoder.build()))
                .isEqualTo(Map.of(name, read));
    }

    static Stream<Arguments> refused() {
        return Stream.of(
                Arguments.of("price", "9.5", Refusal.WRONG_TYPE),
                Arguments.of("price", Double.NaN, Refusal.WRONG_TYPE),
                Arguments.of("price", new BigDecimal("1e400"), Refusal.WRONG_TYPE),
                Arguments.of("stock", 3.5, Refusal.WRONG_TYPE),
                Arguments.of("stock", 0x1p63, Refusal.WRONG_TYPE),
                Arguments.of("stock", new BigDecimal("1e2000000000"), Refusal.WRONG_TYPE),
                Arguments.of("stock", new BigInteger("9223372036854775808"), Refusal.WRONG_TYPE),
                Arguments.of("stock", true, Refusal.WRONG_TYPE),
                Arguments.of("new", 1, Refusal.WRONG_TYPE),
                Arguments.of("colour", 1, Refusal.WRONG_TYPE),
                Arguments.of("colour", List.of("red"), Refusal.WRONG_TYPE),
                Arguments.of("colour", "\ud83d", Refusal.WRONG_TYPE),
                Arguments.of("colour", "x".repeat(4_097), Refusal.TOO_LARGE),
                Arguments.of("tags", "red", Refusal.WRONG_TYPE),
                Arguments.of("tags", List.of("a", 1), Refusal.WRONG_TYPE),
                Arguments.of("tags", Arrays.asList("a", null), Refusal.WRONG_TYPE),
                Arguments.of("tags", new String[] {"a", null}, Refusal.WRONG_TYPE),
                Arguments.of("tags", texts(1_025, 1), Refusal.TOO_LARGE),
                Arguments.of("tags", texts(1_000, 100), Refusal.TOO_LARGE),
                Arguments.of("since", "yesterday", Refusal.WRONG_TYPE),
                Arguments.of("since", Instant.MAX, Refusal.WRONG_TYPE),
                Arguments.of("since", 1.5, Refusal.WRONG_TYPE));
    }

    @ParameterizedTest
    @MethodSource
    void refused(String name, Object given, Refusal why) {
        set("stock", 7);
        byte[] before = encoder.build();
        assertThat(encoder.set(Shop.NUMBERS.column(name), given)).isEqualTo(why);
        assertThat(encoder.problem()).contains(name);
        assertThat(encoder.build()).as("nothing changed").isEqualTo(before);
    }

    @Test
    void updatesOfRowsAgreeWithAMap() {
        SplittableRandom random = new SplittableRandom(11);
        FieldsBuilder builder = new FieldsBuilder(Shop.NUMBERS);
        Map<String, Object> model = new LinkedHashMap<>();
        RowFields row = RowFields.NONE;
        for (int round = 0; round < 3_000; round++) {
            builder.clear();
            for (String name : List.of("colour", "price", "stock", "new", "tags")) {
                if (random.nextInt(3) > 0) {
                    continue;
                }
                Object value = random.nextInt(3) == 0 ? null : value(name, random);
                assertThat(builder.set(name, value)).isNull();
                if (value == null) {
                    model.remove(name);
                } else {
                    model.put(name, value);
                }
            }
            row = builder.updated(row, builder.change());
            assertThat(AttributeValues.read(Shop.NUMBERS, row.attributes()))
                    .as("round %d of seed 11", round)
                    .isEqualTo(model);
        }
    }

    @Test
    void bytesThatAreNoAttributesAreRefused() {
        set("colour", "red");
        set("tags", List.of("a", "bc"));
        set("price", 1);
        byte[] whole = encoder.build();
        int refused = 0;
        for (int length = 1; length < whole.length; length++) {
            try {
                AttributeValues.read(Shop.NUMBERS, Arrays.copyOf(whole, length));
            } catch (IllegalArgumentException e) {
                refused++;
            }
        }
        // All but the cuts between two values.
        assertThat(refused).isEqualTo(whole.length - 1 - 2);
    }

    private void set(String name, Object value) {
        assertThat(encoder.set(Shop.NUMBERS.column(name), value)).as(name).isNull();
    }

    private static Object value(String name, SplittableRandom random) {
        return switch (name) {
            case "colour" -> "c" + random.nextInt(9);
            case "price" -> random.nextDouble();
            case "stock" -> random.nextLong();
            case "new" -> random.nextBoolean();
            default -> texts(random.nextInt(4), 3);
        };
    }

    private static List<String> texts(int count, int length) {
        return java.util.Collections.nCopies(count, "t".repeat(length));
    }
}
