package io.vstream.flink.row;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NameHashTest {

    /** The first of the published test vectors of SipHash-2-4 with 128 bits. */
    @Test
    void theHashIsSipHash() {
        byte[] key = HexFormat.of().parseHex("000102030405060708090a0b0c0d0e0f");
        NameHash hash = new NameHash(key);
        hash.hash(new byte[0]);
        assertThat(bytes(hash)).isEqualTo("a3817f04ba25a8e66df67214c7550293");
        hash.hash(new byte[] {0});
        assertThat(bytes(hash)).isEqualTo("da87c1d86b99af44347659119b22fc45");
    }

    /** filters.rs reads the same file. */
    @Test
    void rustGivesTheSameHashes() throws Exception {
        Path golden = Path.of("../native/src/test/resources/golden/names.txt");
        List<String> lines =
                Files.readAllLines(golden).stream().filter(line -> !line.startsWith("#")).toList();
        assertThat(lines).hasSizeGreaterThan(4);
        for (String line : lines) {
            String[] words = line.split(" ", 4);
            NameHash hash = new Schema(true, List.of(), 0, Long.parseLong(words[0])).names();
            assertThat(hash.hash(words[3])).isTrue();
            assertThat(hash.id()).as(line).isEqualTo(Long.parseUnsignedLong(words[1], 16));
            assertThat(hash.check()).isEqualTo(Long.parseUnsignedLong(words[2], 16));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "\ud83d", "a\ude00", "\ud83d\ud83d\ude00"})
    void idsThatNoBytesStandForAreRefused(String name) {
        assertThat(new Schema(true, List.of(), 0, 1).names().hash(name)).isFalse();
    }

    @Test
    void idsHaveUpToFiveHundredAndTwelveBytes() {
        NameHash hash = new Schema(true, List.of(), 0, 1).names();
        assertThat(hash.hash("\u00e9".repeat(256))).isTrue();
        assertThat(hash.hash("\u00e9".repeat(257))).isFalse();
        assertThat(hash.hash("a".repeat(513))).isFalse();
    }

    @Test
    void manyIdsHaveDifferentHashes() {
        NameHash hash = new Schema(true, List.of(), 0, 42).names();
        Set<Long> ids = new HashSet<>();
        for (int i = 0; i < 100_000; i++) {
            assertThat(hash.hash("user/" + i)).isTrue();
            ids.add(hash.id());
        }
        assertThat(ids).hasSize(100_000).doesNotContain(-1L);
    }

    private static String bytes(NameHash hash) {
        return HexFormat.of()
                .formatHex(
                        ByteBuffer.allocate(16)
                                .order(ByteOrder.LITTLE_ENDIAN)
                                .putLong(hash.id())
                                .putLong(hash.check())
                                .array());
    }
}
