package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.runtime.state.PhysicalStateHandleID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class SharedFetchesTest {

    private static final PhysicalStateHandleID FILE = new PhysicalStateHandleID("far/file");

    @TempDir private Path folder;

    private final SharedFetches fetches = new SharedFetches();
    private final AtomicInteger copies = new AtomicInteger();

    @Test
    void whoComesWhileAFileIsCopiedGetsALink() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch may = new CountDownLatch(1);
        CompletableFuture<Boolean> first =
                inBackground(
                        "first",
                        () -> {
                            begun.countDown();
                            await(may);
                            write("first");
                        });
        begun.await();
        CompletableFuture<Boolean> second = inBackground("second", () -> write("second"));
        may.countDown();

        assertThat(first.get()).isTrue();
        assertThat(second.get()).isFalse();
        assertThat(copies).hasValue(1);
        assertThat(Files.getAttribute(folder.resolve("second"), "unix:nlink")).isEqualTo(2);
        assertThat(folder.resolve("second")).hasContent("content");
        // The link stays when the copy goes.
        Files.delete(folder.resolve("first"));
        assertThat(folder.resolve("second")).hasContent("content");
    }

    @Test
    void whoeverCannotLinkCopies() throws Exception {
        assertThatThrownBy(
                        () ->
                                fetch(
                                        "first",
                                        () -> {
                                            throw new IOException("cut");
                                        }))
                .hasMessage("cut");
        assertThat(fetches.size()).isZero();
        assertThat(fetch("second", () -> write("second"))).isTrue();
        // The task of the copy has ended, and removed it.
        Files.delete(folder.resolve("second"));
        assertThat(fetch("third", () -> write("third"))).isFalse();
        assertThat(folder.resolve("third")).hasContent("content");
        assertThat(copies).hasValue(2);
    }

    @Test
    void whoWaitsForACopyThatFailsCopies() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch may = new CountDownLatch(1);
        CompletableFuture<Boolean> first =
                inBackground(
                        "first",
                        () -> {
                            begun.countDown();
                            await(may);
                            throw new IOException("cut");
                        });
        begun.await();
        CompletableFuture<Boolean> second = inBackground("second", () -> write("second"));
        may.countDown();
        assertThatThrownBy(first::get).hasRootCauseMessage("cut");
        assertThat(second.get()).isNotNull();
        assertThat(folder.resolve("second")).hasContent("content");
    }

    @Test
    void aCopyIsForgottenByWhoMadeItAlone() throws Exception {
        fetch("first", () -> write("first"));
        fetches.forget(FILE, folder.resolve("second"));
        assertThat(fetches.size()).isEqualTo(1);
        fetches.forget(FILE, folder.resolve("first"));
        assertThat(fetches.size()).isZero();
        assertThat(fetch("second", () -> write("second"))).isTrue();
        assertThat(copies).hasValue(2);
    }

    private boolean fetch(String name, SharedFetches.Copy copy) throws Exception {
        return fetches.fetch(FILE, folder.resolve(name), copy);
    }

    private CompletableFuture<Boolean> inBackground(String name, SharedFetches.Copy copy) {
        CompletableFuture<Boolean> done = new CompletableFuture<>();
        new Thread(
                        () -> {
                            try {
                                done.complete(fetch(name, copy));
                            } catch (Throwable e) {
                                done.completeExceptionally(e);
                            }
                        })
                .start();
        return done;
    }

    private void write(String name) throws IOException {
        copies.incrementAndGet();
        Files.writeString(folder.resolve(name), "content");
    }

    private static void await(CountDownLatch latch) throws IOException {
        try {
            latch.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
    }
}
