package io.vstream.flink.job;

import io.vstream.flink.search.Folders;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The snapshot that a job leaves when it ends: a folder per partition.
 *
 * <p>Partitions write below {@code next}, and only when all have done so their folders take the
 * place of an older snapshot's. So a job that fails or is cancelled leaves the older one as it was.
 */
final class FinalSnapshot {

    private static final String PARTITIONS = "partition-*";

    private FinalSnapshot() {}

    /** The folder that partitions write to; null without a snapshot. */
    static String staging(String folder) {
        return folder == null ? null : Path.of(folder, "next").toString();
    }

    /** Removes what a job left that did not end. */
    static void prepare(String folder) {
        if (folder != null) {
            Folders.delete(Path.of(staging(folder)));
        }
    }

    /**
     * Replaces the older snapshot by what the partitions wrote. The older one may have had more
     * partitions, so all of it goes.
     */
    static void publish(String folder) throws IOException {
        if (folder == null) {
            return;
        }
        Path target = Path.of(folder);
        try (DirectoryStream<Path> old = Files.newDirectoryStream(target, PARTITIONS)) {
            old.forEach(Folders::delete);
        }
        Path staging = Path.of(staging(folder));
        try (DirectoryStream<Path> written = Files.newDirectoryStream(staging, PARTITIONS)) {
            for (Path partition : written) {
                Files.move(partition, target.resolve(partition.getFileName()));
            }
        }
        Folders.delete(staging);
    }
}
