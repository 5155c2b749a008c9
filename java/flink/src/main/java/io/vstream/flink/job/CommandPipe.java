package io.vstream.flink.job;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The pipe from the command that started this process to its standard input. Nothing comes through
 * it: its end says that the command is gone, even if that was killed.
 */
final class CommandPipe {

    private static final Path STANDARD_INPUT = Path.of("/dev/stdin");

    private static final int FILE_KIND = 0170000;
    private static final int PIPE = 0010000;

    private CommandPipe() {}

    /**
     * True if the standard input is a pipe. A terminal, a file or {@code /dev/null} is not the
     * command's, and their end says nothing.
     */
    static boolean isStandardInput() {
        return isPipe(STANDARD_INPUT);
    }

    /** True if a path leads to a pipe. */
    static boolean isPipe(Path path) {
        try {
            int mode = (Integer) Files.getAttribute(path, "unix:mode");
            return (mode & FILE_KIND) == PIPE;
        } catch (IOException | UnsupportedOperationException e) {
            // It is closed, or this is no Unix.
            return false;
        }
    }

    /** Reads {@code in} beside everything else, and runs {@code then} after its end. */
    static void onEnd(InputStream in, Runnable then) {
        Thread reader =
                new Thread(
                        () -> {
                            drain(in);
                            then.run();
                        },
                        "vstream-command-pipe");
        reader.setDaemon(true);
        reader.start();
    }

    private static void drain(InputStream in) {
        byte[] dropped = new byte[1024];
        try {
            while (in.read(dropped) >= 0) {
                // Nobody has anything to say.
            }
        } catch (IOException e) {
            // What cannot be read has ended.
        }
    }
}
