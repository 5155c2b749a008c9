package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Objects;

/**
 * One partition's engine: the index of its vectors, in native memory.
 *
 * <p>One thread writes ({@link #write}, {@link #pin}, {@link #share}); any number of threads may
 * search at the same time, each with its own buffers. Every buffer is direct, in native byte order,
 * and read or written from index 0: position and limit are ignored, the capacity bounds it. {@link
 * VectorBatch}, {@link QueryBatch} and {@link AnswerBatch} fill and read them; {@link BufferLayout}
 * draws them.
 */
public final class NativeEngine implements AutoCloseable {

    private final NativeHandle handle;

    private NativeEngine(long number) {
        this.handle = new NativeHandle("engine", number, Bridge::engineClose);
    }

    /**
     * An empty engine.
     *
     * @param settingsJson the collection's settings, see {@link NativeSettings#normalize}
     * @throws EngineException INVALID if the settings are
     */
    public static NativeEngine create(String settingsJson) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        return new NativeEngine(Bridge.engineCreate(settingsJson));
    }

    /**
     * An engine with the rows of a snapshot.
     *
     * @param settingsJson the collection's settings
     * @param directory holds a MANIFEST, which is then obeyed, or any set of {@code shard-*.rows}
     * @throws EngineException INVALID, CORRUPT or IO
     */
    public static NativeEngine restore(String settingsJson, Path directory) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        return new NativeEngine(
                Bridge.engineRestore(settingsJson, NativeSnapshot.absolute(directory)));
    }

    /**
     * An empty engine that keeps its rows in a directory, so that its state can be shared ({@link
     * #share}). Nothing there is forced to the disk: it is gone with its owner, who deletes it.
     *
     * @param settingsJson the collection's settings
     * @param directory made for this engine
     * @param firstShard of those that the engine owns; it takes rows of no others
     * @param lastShard of those that the engine owns, at least {@code firstShard}
     * @throws EngineException INVALID if the settings are, IO
     */
    public static NativeEngine createIn(
            String settingsJson, Path directory, int firstShard, int lastShard) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        String path = NativeSnapshot.absolute(directory);
        return new NativeEngine(Bridge.engineCreateIn(settingsJson, path, firstShard, lastShard));
    }

    /**
     * The engine of a shared state, with every row of it; it goes on in that directory as one of
     * {@link #createIn} does.
     *
     * @param settingsJson the collection's settings, which are used from now on
     * @param directory holds the manifest as {@link NativeState#MANIFEST} and the files
     * @param firstShard of those that the engine owns, as the one that shared the state did
     * @param lastShard of those that the engine owns
     * @throws EngineException INVALID if the settings do not fit, CORRUPT naming the file, IO
     */
    public static NativeEngine open(
            String settingsJson, Path directory, int firstShard, int lastShard) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        String path = NativeSnapshot.absolute(directory);
        return new NativeEngine(Bridge.engineOpen(settingsJson, path, firstShard, lastShard));
    }

    /**
     * Says that no state of the engine before this one will be opened again, not even that from
     * which this one was opened: this engine now deletes what it does not need of what that one
     * left in the remote level.
     */
    public void inheritRemote() {
        Bridge.engineInheritRemote(handle.number());
    }

    /**
     * Adds the rows of some shards out of a shared state, which is only read.
     *
     * @param directory holds the manifest as {@link NativeState#MANIFEST} and the files
     * @param firstShard of those that are wanted
     * @param lastShard of those that are wanted
     * @return how many they were
     * @throws EngineException INVALID if the collection is another, CORRUPT naming the file, IO
     */
    public long take(Path directory, int firstShard, int lastShard) {
        String path = NativeSnapshot.absolute(directory);
        return Bridge.engineTake(handle.number(), path, firstShard, lastShard);
    }

    /**
     * Applies records in order; they are visible to every search that starts afterwards.
     *
     * <p>A record older than the stored version of its id is skipped. One that the collection
     * cannot take changes nothing, and those behind it are applied. A batch whose bytes are no
     * records, or that has a row of another partition, is the mistake of its sender: the call
     * fails.
     *
     * @param records {@code count} records back to back, see {@link BufferLayout}
     * @return how many updates found no row, and which records were refused and why
     * @throws EngineException INVALID for a buffer that is not direct, not in native order or too
     *     small, or a row of another partition, naming the record; CLOSED after {@link #close}
     */
    public Written write(ByteBuffer records, int count) {
        return Written.read(
                Bridge.engineWrite(
                        handle.number(), BufferLayout.checked(records, "records"), count));
    }

    /**
     * Answers a batch of queries, each on a snapshot taken when its turn comes.
     *
     * @param queries the queries, see {@link BufferLayout}
     * @param answers receives the answers; {@link BufferLayout#answerBytes} says how much room one
     *     query may need
     * @return bytes written to {@code answers}
     * @throws EngineException INVALID before any work for a bad query or a buffer that is too
     *     small; CLOSED after {@link #close}
     */
    public int search(ByteBuffer queries, ByteBuffer answers) {
        return Bridge.engineSearch(
                handle.number(),
                BufferLayout.checked(queries, "queries"),
                BufferLayout.checkedOutput(answers, "answers"));
    }

    /**
     * Answers a batch of queries that ask what rows carry, as {@link #search} does.
     *
     * @return the answers, as long as they are
     * @throws EngineException as {@link #search}
     */
    byte[] searchFields(ByteBuffer queries) {
        return Bridge.engineSearchFields(handle.number(), BufferLayout.checked(queries, "queries"));
    }

    /**
     * The live rows of this moment, to be written while this engine goes on; costs next to nothing.
     * What the engine replaces meanwhile stays in memory until the snapshot is closed.
     *
     * @throws EngineException CLOSED after {@link #close}
     */
    public NativeSnapshot pin() {
        return new NativeSnapshot(Bridge.enginePin(handle.number()));
    }

    /**
     * The rows of this moment, to be searched on any thread while this engine goes on; costs next
     * to nothing. What the engine replaces meanwhile stays in memory until it is closed.
     *
     * @throws EngineException CLOSED after {@link #close}
     */
    public NativeReadSnapshot readSnapshot() {
        return new NativeReadSnapshot(Bridge.engineMoment(handle.number()));
    }

    /**
     * The state of this moment, as files to be copied while this engine goes on; costs the
     * beginning of one file.
     *
     * @throws EngineException INVALID for an engine without a directory; IO; CLOSED after {@link
     *     #close}
     */
    public NativeState share() {
        return new NativeState(Bridge.engineShare(handle.number()));
    }

    /**
     * Writes every live row to {@code directory} and forces it to the disk: {@link #pin} and {@link
     * NativeSnapshot#write} in one.
     */
    public void snapshot(Path directory) {
        try (NativeSnapshot rows = pin()) {
            rows.write(directory, true);
        }
    }

    /**
     * Counts as one JSON object: {@code live-rows}, {@code deleted-rows}, {@code leaves}, {@code
     * probes}, {@code recall} (null, or mean, margin and audits as the engine measured them),
     * {@code memory-bytes}, {@code cache-bytes} among them, {@code segment-bytes} on disk, {@code
     * splits}, {@code merges}, {@code rewrites} and {@code moved-rows}; and {@code in-memory-ms}
     * and {@code on-disk-ms}, the mean time of a row there before it went to the next level, or
     * null. Visits every leaf and waits for the writer: not for every record.
     */
    public String statsJson() {
        return Bridge.engineStats(handle.number());
    }

    /**
     * Has searches with automatic effort reach, on the rows of this engine, what merged audits of
     * the whole collection say that they must. Obeyed some audits of the engine later.
     *
     * @param audits how many there were; the older ones may count for less
     * @param lost sum over them of the share of the true neighbours that lie in partitions which
     *     were not asked
     * @param missed sum of the share that partitions hold which were asked and did not find it
     * @param ownMissed sum of what the partitions said of themselves that they miss
     * @param ownAllowed sum of what they were to miss of that
     * @return the recall that is to be reached
     * @throws EngineException INVALID if a sum is negative or not a number
     */
    public double aim(
            double audits, double lost, double missed, double ownMissed, double ownAllowed) {
        return Bridge.engineAim(handle.number(), audits, lost, missed, ownMissed, ownAllowed);
    }

    /**
     * Rows and upserts of every bucket, (i32 rows, i32 upserts) each, little-endian; upserts are
     * counted since the engine was made and wrap. Visits every row: not for every record.
     */
    public byte[] loads() {
        return Bridge.engineLoads(handle.number());
    }

    /**
     * Live rows of a sample: (i64 id, i64 code, dimension x f32) each, little-endian. Whether a row
     * is drawn is a function of its id. Visits every row: not for every record.
     *
     * @param share of all rows, 0 to 1
     * @param slice of the sample, 0 to {@code slices} - 1
     * @throws EngineException INVALID if there is no such slice
     */
    public byte[] sample(double share, int slice, int slices) {
        return Bridge.engineSample(handle.number(), share, slice, slices);
    }

    /** Begins to remember deletes, as rows of another partition are awaited, or forgets them. */
    public void awaitRows(boolean awaited) {
        Bridge.engineAwait(handle.number(), awaited);
    }

    /**
     * Takes in up to {@code rowsMax} sealed rows, but for those that it knows to be old or dead.
     *
     * @return how many were looked at; 0 when all are in
     */
    public int adopt(NativeAdoption rows, int rowsMax) {
        return Bridge.engineAdopt(handle.number(), rows.number(), rowsMax);
    }

    /**
     * Drops up to {@code rowsMax} rows of ranges that have left.
     *
     * @return how many are left to be dropped
     */
    public int release(MovedRanges ranges, int rowsMax) {
        return Bridge.engineRelease(handle.number(), ranges.bytes(), rowsMax);
    }

    /** Frees the engine once running searches have ended; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
