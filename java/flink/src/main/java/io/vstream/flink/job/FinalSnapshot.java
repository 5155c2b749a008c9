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
 *
 * <p>A process may be killed at any moment, so the name of the folder says how far it was:
 *
 * <ol>
 *   <li>{@code next} becomes {@code complete}: from here on the new snapshot is the one that
 *       counts.
 *   <li>The older partitions go to {@code replaced}.
 *   <li>{@code complete} becomes {@code placing}: what lies in the place of the snapshot is new.
 *   <li>The new partitions go to their place, and then the rest is deleted.
 * </ol>
 */
final class FinalSnapshot {

    private static final String PARTITIONS = "partition-*";
    private static final String COMPLETE = "complete";
    private static final String REPLACED = "replaced";
    private static final String PLACING = "placing";

    private FinalSnapshot() {}

    /** Gives a folder another name, at once or not at all. */
    interface Move {
        void move(Path from, Path to) throws IOException;
    }

    /** The folder that partitions write to; null without a snapshot. */
    static String staging(String folder) {
        return folder == null ? null : Path.of(folder, "next").toString();
    }

    /** Removes what a job left that did not end, and publishes what one left that did. */
    static void prepare(String folder) throws IOException {
        if (folder != null) {
            replace(Path.of(folder), Files::move);
            Folders.delete(Path.of(staging(folder)));
        }
    }

    /**
     * Replaces the older snapshot by what the partitions wrote. The older one may have had more
     * partitions, so all of it goes.
     */
    static void publish(String folder) throws IOException {
        publish(folder, Files::move);
    }

    /** The same for tests, with moves that may fail. */
    static void publish(String folder, Move move) throws IOException {
        if (folder != null) {
            Path target = Path.of(folder);
            move.move(Path.of(staging(folder)), target.resolve(COMPLETE));
            replace(target, move);
        }
    }

    /** Goes on from wherever an earlier call was. */
    private static void replace(Path target, Move move) throws IOException {
        Path complete = target.resolve(COMPLETE);
        Path replaced = target.resolve(REPLACED);
        Path placing = target.resolve(PLACING);
        if (Files.exists(complete)) {
            moveAll(target, Files.createDirectories(replaced), move);
            move.move(complete, placing);
        }
        if (Files.exists(placing)) {
            moveAll(placing, target, move);
            Folders.delete(placing);
        }
        Folders.delete(replaced);
    }

    private static void moveAll(Path from, Path to, Move move) throws IOException {
        try (DirectoryStream<Path> partitions = Files.newDirectoryStream(from, PARTITIONS)) {
            for (Path partition : partitions) {
                move.move(partition, to.resolve(partition.getFileName()));
            }
        }
    }
}
