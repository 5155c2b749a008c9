package io.vstream.flink.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DatasetFileTest {

    @TempDir private Path folder;

    @Test
    void readsRowsOfEveryForm() throws IOException {
        float[] row = new float[3];
        DatasetFile floats = DatasetFile.open(DataFiles.floats(folder, "a", 5, 3));
        floats.read(4, row);
        assertThat(row).containsExactly(4000, 4001, 4002);
        assertThat(floats.rows()).isEqualTo(5);

        DatasetFile bytes = DatasetFile.open(DataFiles.bytes(folder, "a.u8bin", 5, 3));
        bytes.read(1, row);
        assertThat(row).containsExactly(1000 & 0xff, 1001 & 0xff, 1002 & 0xff);

        DatasetFile signed = DatasetFile.open(DataFiles.bytes(folder, "a.i8bin", 5, 3));
        signed.read(1, row);
        assertThat(row).containsExactly((byte) 1000, (byte) 1001, (byte) 1002);
    }

    @Test
    void refusesFilesThatAreNotWhatTheySay() throws IOException {
        Path whole = DataFiles.floats(folder, "whole", 5, 3);
        byte[] bytes = Files.readAllBytes(whole);
        Path cut = Files.write(folder.resolve("cut.fbin"), Arrays.copyOf(bytes, bytes.length - 1));
        assertThatThrownBy(() -> DatasetFile.open(cut)).hasMessageContaining("download");
        Path tiny = Files.write(folder.resolve("tiny.fbin"), new byte[3]);
        assertThatThrownBy(() -> DatasetFile.open(tiny)).hasMessageContaining("header");
        Path empty = Files.write(folder.resolve("empty.fbin"), new byte[8]);
        assertThatThrownBy(() -> DatasetFile.open(empty)).hasMessageContaining("0 rows");
        Path other = Files.write(folder.resolve("a.npy"), bytes);
        assertThatThrownBy(() -> DatasetFile.open(other)).hasMessageContaining(".fbin");
        assertThatThrownBy(() -> DatasetFile.open(folder.resolve("absent.fbin")))
                .isInstanceOf(IOException.class);
    }
}
