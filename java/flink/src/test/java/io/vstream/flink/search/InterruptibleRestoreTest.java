package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class InterruptibleRestoreTest {

    /** Flink once ended a task manager whose task was in a native call when it was cancelled. */
    @Test
    void aTaskThatIsCancelledDoesNotWaitForTheWork() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        CompletableFuture<String> letGo = new CompletableFuture<>();
        AtomicReference<Throwable> ended = new AtomicReference<>();
        Thread task =
                new Thread(
                        () -> {
                            try {
                                InterruptibleRestore.run(
                                        "restore",
                                        () -> {
                                            begun.countDown();
                                            go.await();
                                            return "the engine";
                                        },
                                        letGo::complete);
                            } catch (Throwable e) {
                                ended.set(e);
                            }
                        });
        task.start();
        begun.await();
        task.interrupt();
        task.join();
        assertThat(ended.get()).isInstanceOf(InterruptedException.class);
        assertThat(letGo).isNotDone();
        go.countDown();
        assertThat(letGo.get()).isEqualTo("the engine");
    }

    @Test
    void theResultOrTheFailureIsThatOfTheWork() throws Exception {
        assertThat(InterruptibleRestore.run("restore", () -> 7, none -> {})).isEqualTo(7);
        assertThatThrownBy(
                        () ->
                                InterruptibleRestore.run(
                                        "restore",
                                        () -> {
                                            throw new IOException("The disk is full.");
                                        },
                                        none -> {}))
                .isExactlyInstanceOf(IOException.class)
                .hasMessage("The disk is full.");
    }
}
