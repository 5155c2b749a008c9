package io.vstream.flink.search;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Removes folders that are no longer needed. */
public final class Folders {

    private static final Logger LOG = LoggerFactory.getLogger(Folders.class);

    private Folders() {}

    /** Deletes a folder and all that is in it; what cannot be deleted is only warned about. */
    public static void delete(Path folder) {
        try {
            Files.walkFileTree(folder, new Deleter());
        } catch (IOException e) {
            LOG.warn("Could not delete {}; delete it by hand.", folder, e);
        }
    }

    private static final class Deleter extends SimpleFileVisitor<Path> {
        @Override
        public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
                throws IOException {
            Files.deleteIfExists(file);
            return FileVisitResult.CONTINUE;
        }

        /** Somebody else may delete here, too: what is gone ends no walk. */
        @Override
        public FileVisitResult visitFileFailed(Path file, IOException failure) throws IOException {
            if (failure instanceof NoSuchFileException) {
                return FileVisitResult.CONTINUE;
            }
            throw failure;
        }

        @Override
        public FileVisitResult postVisitDirectory(Path folder, IOException failure)
                throws IOException {
            Files.deleteIfExists(folder);
            return FileVisitResult.CONTINUE;
        }
    }
}
