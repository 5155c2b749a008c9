package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.search.Folders;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FinalSnapshotTest {

    @TempDir Path folder;

    @Test
    void aJobThatDoesNotEndLeavesTheOlderSnapshotAsItWas() throws IOException {
        write(folder, 0, "old");
        FinalSnapshot.prepare(folder.toString());
        write(Path.of(FinalSnapshot.staging(folder.toString())), 0, "of a job that was cancelled");
        assertThat(Files.readString(folder.resolve("partition-0/MANIFEST"))).isEqualTo("old");

        FinalSnapshot.prepare(folder.toString());
        assertThat(names()).containsExactly("partition-0");
    }

    @Test
    void aSnapshotReplacesAllPartitionsOfTheOlderOne() throws IOException {
        for (int partition = 0; partition < 4; partition++) {
            write(folder, partition, "old");
        }
        FinalSnapshot.prepare(folder.toString());
        for (int partition = 0; partition < 2; partition++) {
            write(Path.of(FinalSnapshot.staging(folder.toString())), partition, "new");
        }
        FinalSnapshot.publish(folder.toString());
        assertThat(names()).containsExactly("partition-0", "partition-1");
        assertThat(Files.readString(folder.resolve("partition-1/MANIFEST"))).isEqualTo("new");
    }

    /**
     * A kill after each of its steps: the older partitions were once gone by then, and the next job
     * deleted what was left of the new ones.
     */
    @Test
    void aJobThatIsKilledWhileItPublishesLosesNothing() throws IOException {
        Path next = Path.of(FinalSnapshot.staging(folder.toString()));
        for (int killed = 0; killed < 8; killed++) {
            Folders.delete(folder);
            for (int partition = 0; partition < 3; partition++) {
                write(folder, partition, "old");
            }
            for (int partition = 0; partition < 2; partition++) {
                write(next, partition, "new");
            }
            int last = killed;
            int[] moves = {0};
            try {
                FinalSnapshot.publish(
                        folder.toString(),
                        (from, to) -> {
                            if (moves[0]++ == last) {
                                throw new IOException("killed");
                            }
                            Files.move(from, to);
                        });
            } catch (IOException e) {
                assertThat(e).hasMessage("killed");
            }
            FinalSnapshot.prepare(folder.toString());
            boolean published = killed > 0;
            assertThat(names())
                    .as("killed at move %d", killed)
                    .hasSize(published ? 2 : 3)
                    .allMatch(name -> name.startsWith("partition-"));
            assertThat(Files.readString(folder.resolve("partition-1/MANIFEST")))
                    .isEqualTo(published ? "new" : "old");
        }
    }

    @Test
    void withoutASnapshotNothingHappens() throws IOException {
        assertThat(FinalSnapshot.staging(null)).isNull();
        FinalSnapshot.prepare(null);
        FinalSnapshot.publish(null);
    }

    private static void write(Path in, int partition, String text) throws IOException {
        Path made = Files.createDirectories(in.resolve("partition-" + partition));
        Files.writeString(made.resolve("MANIFEST"), text);
    }

    private List<String> names() throws IOException {
        try (Stream<Path> every = Files.list(folder)) {
            return every.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }
}
