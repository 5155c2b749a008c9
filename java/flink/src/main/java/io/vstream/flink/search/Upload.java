package io.vstream.flink.search;

import io.vstream.nativecore.NativeState;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import org.apache.flink.runtime.checkpoint.SnapshotType.SharingFilesStrategy;
import org.apache.flink.runtime.state.AsyncSnapshotCallable;
import org.apache.flink.runtime.state.CheckpointStateOutputStream;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.IncrementalKeyedStateHandle.HandleAndLocalPath;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.PlaceholderStreamStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StateUtil;
import org.apache.flink.runtime.state.StreamStateHandle;

/** The part of a checkpoint that is done beside the task: see {@link IncrementalStore}. */
final class Upload extends AsyncSnapshotCallable<SnapshotResult<KeyedStateHandle>> {

    private static final int COPY_BYTES = 1 << 16;

    private final IncrementalStore store;
    private final SegmentSnapshotStore.Target target;
    private final NativeState state;
    private final Map<String, StreamStateHandle> known;
    private final List<StreamStateHandle> written = new ArrayList<>();
    private final byte[] buffer = new byte[COPY_BYTES];
    private long bytes;

    /**
     * @param known files that are named, not uploaded
     */
    Upload(
            IncrementalStore store,
            SegmentSnapshotStore.Target target,
            NativeState state,
            Map<String, StreamStateHandle> known) {
        this.store = store;
        this.target = target;
        this.state = state;
        this.known = known;
    }

    @Override
    protected SnapshotResult<KeyedStateHandle> callInternal() throws Exception {
        boolean done = false;
        try {
            KeyedStateHandle handle = upload();
            if (snapshotCloseableRegistry.isClosed()) {
                throw new CancellationException("The checkpoint was given up.");
            }
            done = true;
            return SnapshotResult.of(handle);
        } finally {
            if (!done) {
                StateUtil.bestEffortDiscardAllStateObjects(written);
            }
        }
    }

    @Override
    protected void cleanupProvidedResources() {
        state.close();
    }

    private KeyedStateHandle upload() throws IOException {
        boolean own =
                target.options().getCheckpointType().getSharingFilesStrategy()
                        == SharingFilesStrategy.NO_SHARING;
        CheckpointedStateScope scope =
                own ? CheckpointedStateScope.EXCLUSIVE : CheckpointedStateScope.SHARED;
        Map<String, StreamStateHandle> files = new HashMap<>();
        List<HandleAndLocalPath> paths = new ArrayList<>();
        for (NativeState.File file : state.files()) {
            StreamStateHandle there = known.get(file.key());
            StreamStateHandle handle = there;
            if (there == null) {
                there = upload(file, scope);
                handle = there;
            } else {
                handle =
                        new PlaceholderStreamStateHandle(
                                there.getStreamStateHandleID(), there.getStateSize(), false);
            }
            files.put(file.key(), there);
            paths.add(HandleAndLocalPath.of(handle, file.key()));
        }
        StreamStateHandle manifest = upload(state.manifest());
        store.note(target, files);
        return new IncrementalRemoteKeyedStateHandle(
                store.engine(),
                store.shards(),
                target.id(),
                own ? List.of() : paths,
                own ? paths : List.of(),
                manifest,
                bytes);
    }

    private StreamStateHandle upload(NativeState.File file, CheckpointedStateScope scope)
            throws IOException {
        CheckpointStateOutputStream out = open(scope);
        try (InputStream in = Files.newInputStream(file.path())) {
            snapshotCloseableRegistry.registerCloseable(in);
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                out.write(buffer, 0, read);
            }
            snapshotCloseableRegistry.unregisterCloseable(in);
            return close(out, file.bytes());
        } catch (IOException e) {
            out.close();
            throw e;
        }
    }

    private StreamStateHandle upload(byte[] manifest) throws IOException {
        CheckpointStateOutputStream out = open(CheckpointedStateScope.EXCLUSIVE);
        try {
            out.write(manifest);
            return close(out, manifest.length);
        } catch (IOException e) {
            out.close();
            throw e;
        }
    }

    private CheckpointStateOutputStream open(CheckpointedStateScope scope) throws IOException {
        CheckpointStateOutputStream out = target.streams().createCheckpointStateOutputStream(scope);
        try {
            snapshotCloseableRegistry.registerCloseable(out);
        } catch (IOException e) {
            out.close();
            throw e;
        }
        return out;
    }

    private StreamStateHandle close(CheckpointStateOutputStream out, long expected)
            throws IOException {
        if (!snapshotCloseableRegistry.unregisterCloseable(out)) {
            throw new IOException("The checkpoint was given up.");
        }
        StreamStateHandle handle = out.closeAndGetHandle();
        if (handle == null) {
            throw new IOException("A file of search state came out empty.");
        }
        written.add(handle);
        if (handle.getStateSize() != expected) {
            throw new IOException(
                    "A file of search state has "
                            + expected
                            + " bytes, of which "
                            + handle.getStateSize()
                            + " were uploaded.");
        }
        bytes += expected;
        return handle;
    }
}
