package io.vstream.flink.handover;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HandoverFolderTest {

    @TempDir private Path folder;

    @Test
    void aJobThatIsOverLeavesNothing() throws IOException {
        Path job = sealed();
        HandoverFolder.remove(job.toUri().toString(), () -> false);
        assertThat(job).doesNotExist();
    }

    /** With a slow file system the next attempt of the job may have sealed rows by then. */
    @Test
    void whatIsFoundTooLateStays() throws IOException {
        Path job = sealed();
        HandoverFolder.remove(job.toUri().toString(), () -> true);
        assertThat(job.resolve("77-1/0-1/shard-010.rows")).exists();
    }

    /** The next attempt begins while the files of the last one are deleted. */
    @Test
    void whatComesAfterTheListingStays() throws IOException {
        Path job = sealed();
        Path next = job.resolve("78-1");
        HandoverFolder.remove(
                job.toUri().toString(),
                () -> {
                    assertThat(next.toFile().mkdir()).isTrue();
                    return false;
                });
        assertThat(job).isDirectoryContaining(next::equals).isDirectoryNotContaining("glob:**77-1");
    }

    private Path sealed() throws IOException {
        Path job = folder.resolve("handover-of-a-job");
        Path sealed = Files.createDirectories(job.resolve("77-1").resolve("0-1"));
        Files.writeString(sealed.resolve("shard-010.rows"), "rows");
        return job;
    }
}
