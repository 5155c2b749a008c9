package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CommandPipeTest {

    @TempDir private Path folder;

    @Test
    void aFileAndADeviceAreNoPipes() throws Exception {
        Path pipe = folder.resolve("pipe");
        assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
        assertThat(CommandPipe.isPipe(pipe)).isTrue();
        assertThat(CommandPipe.isPipe(Files.writeString(folder.resolve("file"), ""))).isFalse();
        assertThat(CommandPipe.isPipe(Path.of("/dev/null"))).isFalse();
        assertThat(CommandPipe.isPipe(folder.resolve("nothing"))).isFalse();
    }

    @Test
    void onlyItsEndIsHeard() throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        PipedOutputStream command = new PipedOutputStream();
        CommandPipe.onEnd(new PipedInputStream(command), ended::countDown);
        command.write("a word\n".getBytes(java.nio.charset.StandardCharsets.UTF_8));
        command.flush();
        assertThat(ended.await(100, TimeUnit.MILLISECONDS)).isFalse();
        command.close();
        assertThat(ended.await(10, TimeUnit.SECONDS)).isTrue();
    }
}
