package io.vstream.flink.search;

import io.vstream.nativecore.NativeSnapshot;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RunnableFuture;
import org.apache.flink.runtime.state.CheckpointStateOutputStream;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeOffsets;
import org.apache.flink.runtime.state.KeyGroupStatePartitionStreamProvider;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StreamStateHandle;

/**
 * Writes every row in every checkpoint: one raw keyed stream in which a shard is a key group, so
 * that Flink hands each subtask its own shards at any parallelism.
 *
 * <p>A key group holds: i64 length, then that many bytes of {@code shard-NNN.rows}. An empty shard
 * has no key group.
 */
final class FullCopyStore implements SegmentSnapshotStore {

    private static final long serialVersionUID = 1L;
    private static final long NO_OFFSET = -1L;

    @Override
    public RunnableFuture<SnapshotResult<KeyedStateHandle>> upload(
            NativeSnapshot rows,
            Path directory,
            KeyGroupRange shards,
            CheckpointStreamFactory streams) {
        return new Upload(
                () -> {
                    rows.write(directory, false);
                    return copy(directory, shards, streams);
                },
                rows,
                directory);
    }

    @Override
    public int download(StateInitializationContext context, Path directory) throws IOException {
        int found = 0;
        for (KeyGroupStatePartitionStreamProvider group : context.getRawKeyedStateInputs()) {
            // The stream belongs to the context, which closes it.
            DataInputStream in = new DataInputStream(group.getStream());
            long length = in.readLong();
            Path file = file(directory, group.getKeyGroupId());
            try (OutputStream out = Files.newOutputStream(file)) {
                pipe(in, out, length, file);
            }
            found++;
        }
        return found;
    }

    /** The file that the engine keeps a shard's rows in. */
    static Path file(Path directory, int shard) {
        return directory.resolve(String.format("shard-%03d.rows", shard));
    }

    private static SnapshotResult<KeyedStateHandle> copy(
            Path directory, KeyGroupRange shards, CheckpointStreamFactory streams)
            throws IOException {
        long[] offsets = new long[shards.getNumberOfKeyGroups()];
        Arrays.fill(offsets, NO_OFFSET);
        boolean any = false;
        try (CheckpointStateOutputStream out =
                streams.createCheckpointStateOutputStream(CheckpointedStateScope.EXCLUSIVE)) {
            for (int i = 0; i < offsets.length; i++) {
                Path file = file(directory, shards.getKeyGroupId(i));
                if (Files.exists(file)) {
                    offsets[i] = out.getPos();
                    long length = Files.size(file);
                    out.write(ByteBuffer.allocate(Long.BYTES).putLong(length).array());
                    try (InputStream in = Files.newInputStream(file)) {
                        pipe(in, out, length, file);
                    }
                    any = true;
                }
            }
            StreamStateHandle handle = any ? out.closeAndGetHandle() : null;
            return handle == null
                    ? SnapshotResult.empty()
                    : SnapshotResult.of(
                            new KeyGroupsStateHandle(
                                    new KeyGroupRangeOffsets(shards, offsets), handle));
        }
    }

    private static void pipe(InputStream in, OutputStream out, long length, Path file)
            throws IOException {
        byte[] buffer = new byte[1 << 16];
        long left = length;
        while (left > 0) {
            int read = in.read(buffer, 0, (int) Math.min(buffer.length, left));
            if (read < 0) {
                throw new IOException(
                        "The checkpointed rows of " + file.getFileName() + " end too early.");
            }
            out.write(buffer, 0, read);
            left -= read;
        }
    }

    /** Lets go of rows and directory whatever becomes of the upload. */
    private static final class Upload extends FutureTask<SnapshotResult<KeyedStateHandle>> {

        private final NativeSnapshot rows;
        private final Path directory;
        private boolean running;
        private boolean ended;

        private Upload(
                Callable<SnapshotResult<KeyedStateHandle>> copy,
                NativeSnapshot rows,
                Path directory) {
            super(copy);
            this.rows = rows;
            this.directory = directory;
        }

        @Override
        public void run() {
            synchronized (this) {
                running = true;
            }
            try {
                super.run();
            } finally {
                synchronized (this) {
                    running = false;
                    if (ended) {
                        release();
                    }
                }
            }
        }

        /** A cancelled task may still be writing: then it releases when it stops. */
        @Override
        protected synchronized void done() {
            ended = true;
            if (!running) {
                release();
            }
        }

        private void release() {
            rows.close();
            Folders.delete(directory);
        }
    }
}
