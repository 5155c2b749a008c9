package io.vstream.flink.search;

import io.vstream.nativecore.NativeState;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
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

    private final IncrementalStore store;
    private final SegmentSnapshotStore.Target target;
    private final FileTransfers.Pin pin;
    private final Map<String, StreamStateHandle> known;
    private final boolean own;
    private final FileTransfers.Target files;
    private Map<String, CompletableFuture<StreamStateHandle>> uploads = Map.of();
    private StreamStateHandle manifest;

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
        this.pin = new FileTransfers.Pin(state);
        this.known = known;
        own =
                target.options().getCheckpointType().getSharingFilesStrategy()
                        == SharingFilesStrategy.NO_SHARING;
        files =
                new FileTransfers.Target(
                        target.streams(),
                        own ? CheckpointedStateScope.EXCLUSIVE : CheckpointedStateScope.SHARED);
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
                store.transfers().giveBack(files, uploads);
                if (manifest != null) {
                    StateUtil.bestEffortDiscardAllStateObjects(List.of(manifest));
                }
            }
        }
    }

    @Override
    protected void cleanupProvidedResources() {
        pin.release();
    }

    private KeyedStateHandle upload() throws Exception {
        List<NativeState.File> all = files();
        List<NativeState.File> missing =
                all.stream().filter(file -> !known.containsKey(file.key())).toList();
        CompletableFuture<Void> stop = new CompletableFuture<>();
        snapshotCloseableRegistry.registerCloseable(() -> stop.complete(null));
        uploads = store.transfers().begin(files, missing, pin);
        FileTransfers.await(uploads.values(), stop);
        Map<String, StreamStateHandle> named = new HashMap<>();
        List<HandleAndLocalPath> paths = new ArrayList<>();
        long bytes = 0;
        for (NativeState.File file : all) {
            StreamStateHandle there = known.get(file.key());
            StreamStateHandle handle = there;
            if (there == null) {
                there = uploads.get(file.key()).join();
                handle = there;
                bytes += file.bytes();
            } else {
                handle =
                        new PlaceholderStreamStateHandle(
                                there.getStreamStateHandleID(), there.getStateSize(), false);
            }
            named.put(file.key(), there);
            paths.add(HandleAndLocalPath.of(handle, file.key()));
        }
        byte[] description = pin.state().manifest();
        manifest = write(description);
        store.note(target, named);
        if (!own && pin.state().releaseCopied()) {
            store.keep(target, pin.use());
        }
        return new IncrementalRemoteKeyedStateHandle(
                store.engine(),
                store.shards(),
                target.id(),
                own ? List.of() : paths,
                own ? paths : List.of(),
                manifest,
                bytes + description.length);
    }

    /** What the checkpoint names or holds; a savepoint holds everything. */
    private List<NativeState.File> files() {
        if (own) {
            return pin.state().wholeFiles();
        }
        if (target.options().getCheckpointType().getSharingFilesStrategy()
                == SharingFilesStrategy.FORWARD) {
            // The job that left its files alone may delete what it has in the remote level.
            pin.state().makeOwn();
        }
        return pin.state().files();
    }

    private StreamStateHandle write(byte[] description) throws IOException {
        CheckpointStateOutputStream out =
                target.streams()
                        .createCheckpointStateOutputStream(CheckpointedStateScope.EXCLUSIVE);
        try {
            snapshotCloseableRegistry.registerCloseable(out);
            out.write(description);
            return FileTransfers.close(out, description.length, snapshotCloseableRegistry);
        } catch (IOException e) {
            out.close();
            throw e;
        }
    }
}
