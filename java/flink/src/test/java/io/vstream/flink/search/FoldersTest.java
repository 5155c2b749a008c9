package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FoldersTest {

    private static final int ROUNDS = 20;
    private static final int FILES = 1_000;

    @TempDir private Path folder;

    /** One file that somebody else deleted once ended the walk, and all others stayed. */
    @Test
    void aFolderGoesWhoseFilesAreDeletedMeanwhile() throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            Path deleted = Files.createDirectory(folder.resolve("round-" + round));
            for (int file = 0; file < FILES; file++) {
                Files.createFile(deleted.resolve("file-" + file));
            }
            CyclicBarrier both = new CyclicBarrier(2);
            Thread other = new Thread(() -> deleteSome(deleted, both));
            other.start();
            both.await();
            Folders.delete(deleted);
            assertThat(deleted).as("round %d", round).doesNotExist();
            other.join();
        }
    }

    @Test
    void whatIsNotThereIsDeleted() {
        Folders.delete(folder.resolve("nowhere"));
        assertThat(folder).exists();
    }

    private static void deleteSome(Path deleted, CyclicBarrier both) {
        try {
            both.await();
        } catch (InterruptedException | BrokenBarrierException e) {
            throw new IllegalStateException(e);
        }
        for (int file = 0; file < FILES; file += 3) {
            deleted.resolve("file-" + file).toFile().delete();
        }
    }
}
