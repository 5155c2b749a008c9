package io.vstream.nativecore;

import java.nio.ByteBuffer;

/**
 * The border: every call into the shared library, implemented by {@code bridge.rs} under the same
 * names. All throw {@link EngineException} and nothing else.
 *
 * <p>Buffers cross as objects and the native side asks the JVM for address and capacity: that costs
 * about 20 ns more than a bare address, is noise beside a search, and leaves Java no way to hand
 * over a pointer that is not a live buffer.
 */
final class Bridge {

    private Bridge() {}

    static native String normalizeSettings(String settingsJson);

    static native long engineCreate(String settingsJson);

    static native long engineRestore(String settingsJson, String directory);

    static native long engineCreateIn(
            String settingsJson, String directory, int firstShard, int lastShard);

    static native long engineOpen(
            String settingsJson, String directory, int firstShard, int lastShard);

    static native long engineTake(long engine, String directory, int firstShard, int lastShard);

    static native long engineShare(long engine);

    static native long engineMoment(long engine);

    static native int momentSearch(long moment, ByteBuffer queries, ByteBuffer answers);

    static native byte[] momentSearchFields(long moment, ByteBuffer queries);

    static native void momentClose(long moment);

    static native void engineInheritRemote(long engine);

    static native String stateFiles(long state, boolean whole);

    static native void stateBring(long state, String name, String directory);

    static native void stateMakeOwn(long state);

    static native boolean stateReleaseCopied(long state);

    static native void stateEndDeletes(long state);

    static native byte[] stateManifest(long state);

    static native void stateClose(long state);

    static native byte[] engineWrite(long engine, ByteBuffer records, int count);

    static native int engineSearch(long engine, ByteBuffer queries, ByteBuffer answers);

    static native byte[] engineSearchFields(long engine, ByteBuffer queries);

    static native long enginePin(long engine);

    static native void snapshotWrite(long snapshot, String directory, boolean synced);

    static native void snapshotClose(long snapshot);

    static native String engineStats(long engine);

    static native void engineClose(long engine);

    static native long routerUnplaced(String settingsJson);

    static native long routerTrain(String settingsJson, ByteBuffer sample, int rows, long epoch);

    static native long routerFromBytes(byte[] template);

    static native byte[] routerToBytes(long router);

    static native long routerEpoch(long router);

    static native boolean routerPlaced(long router);

    static native int routerPlace(long router, long id, ByteBuffer vector, ByteBuffer placements);

    static native int routerFanOut(
            long router, ByteBuffer query, int parallelism, ByteBuffer partitions);

    static native void routerClose(long router);

    static native int routerShardOf(long router, long code);

    static native int routerShards(long router);

    static native int routerCells(long router);

    static native boolean routerMovable(long router);

    static native byte[] routerMoves(long router, long older);

    static native byte[] routerRebalance(
            long router,
            ByteBuffer loads,
            int parallelism,
            boolean boundary,
            double trigger,
            double target,
            double movedMax);

    static native byte[] routerRenew(
            long router,
            String settingsJson,
            ByteBuffer loads,
            byte[] sample,
            double share,
            int parallelism,
            boolean boundary,
            double trigger,
            double target,
            double movedMax);

    static native long snapshotWriteMoved(long snapshot, String directory, byte[] ranges);

    static native byte[] engineLoads(long engine);

    static native byte[] engineSample(long engine, double share, int slice, int slices);

    static native double engineAim(
            long engine,
            double audits,
            double lost,
            double missed,
            double ownMissed,
            double ownAllowed);

    static native void engineAwait(long engine, boolean awaited);

    static native int engineAdopt(long engine, long adoption, int rowsMax);

    static native int engineRelease(long engine, byte[] ranges, int rowsMax);

    static native long adoptionOpen(String settingsJson, String directory);

    static native void adoptionClose(long adoption);

    static native int groupShard(long seed, int shards, byte[] group);

    static native long filtersOpen(String settingsJson);

    static native byte[] filtersCompile(long filters, String text);

    static native void filtersCheckRanked(long filters, String json);

    static native void filtersClose(long filters);

    static native long embedderOpen(String model, String runtime, int tokensMax, int threads);

    static native int embedderDimension(long embedder);

    static native byte[] embedderEmbed(long embedder, byte[] texts);

    static native void embedderClose(long embedder);

    static native byte[] chunksSplit(byte[] document, int size, int overlap);

    static native void yieldToOthers();
}
