package io.vstream.nativecore;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;

/** The files that the Rust tests read too: hexadecimal, {@code #} begins a comment. */
final class Golden {

    private Golden() {}

    static List<String> lines(String name) throws IOException {
        try (InputStream in = Golden.class.getResourceAsStream("/golden/" + name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
        }
    }

    static byte[] bytes(String name) throws IOException {
        StringBuilder digits = new StringBuilder();
        for (String line : lines(name)) {
            digits.append(line.replaceFirst("#.*", "").replace(" ", ""));
        }
        return HexFormat.of().parseHex(digits);
    }

    static ByteBuffer direct(String name) throws IOException {
        byte[] bytes = bytes(name);
        return BufferLayout.allocate(bytes.length).put(0, bytes);
    }

    static byte[] firstBytes(ByteBuffer buffer, int length) {
        byte[] bytes = new byte[length];
        buffer.get(0, bytes);
        return bytes;
    }
}
