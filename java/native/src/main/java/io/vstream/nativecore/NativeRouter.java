package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * One immutable routing template: where a vector lives, and which partitions may hold the
 * neighbours of a query. Any number of threads may use it at once, each with its own buffers.
 * Buffers are direct, in native byte order, and used from index 0, as in {@link NativeEngine}.
 */
public final class NativeRouter implements AutoCloseable {

    private static final SharedObjects SHARED =
            new SharedObjects("router", Bridge::routerFromBytes, Bridge::routerClose);

    private final NativeHandle handle;

    private NativeRouter(NativeHandle handle) {
        this.handle = handle;
    }

    private static NativeRouter own(long number) {
        return new NativeRouter(new NativeHandle("router", number, Bridge::routerClose));
    }

    /**
     * The template before training: rows spread by id, every query visits every partition.
     *
     * @param settingsJson the collection's settings, see {@link NativeSettings#normalize}
     * @throws EngineException INVALID if the settings are
     */
    public static NativeRouter unplaced(String settingsJson) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        return own(Bridge.routerUnplaced(settingsJson));
    }

    /**
     * Trains a template on a sample of the stream.
     *
     * @param settingsJson the collection's settings
     * @param sample {@code rows} x dimension floats, back to back
     * @param epoch number of the new template, larger than that of every older one
     * @throws EngineException INVALID if the settings or the sample are
     */
    public static NativeRouter train(String settingsJson, ByteBuffer sample, int rows, long epoch) {
        Objects.requireNonNull(settingsJson, "settingsJson");
        NativeLibrary.load();
        return own(
                Bridge.routerTrain(
                        settingsJson, BufferLayout.checked(sample, "sample"), rows, epoch));
    }

    /**
     * Reads what {@link #toBytes} wrote. Routers of the same bytes share their memory.
     *
     * @throws EngineException CORRUPT if a byte is not what was written
     */
    public static NativeRouter fromBytes(byte[] template) {
        Objects.requireNonNull(template, "template");
        NativeLibrary.load();
        return new NativeRouter(SHARED.of(template));
    }

    /** The template as bytes, versioned and checksummed. */
    public byte[] toBytes() {
        return Bridge.routerToBytes(handle.number());
    }

    /** Number of this template; 0 before training. */
    public long epoch() {
        return Bridge.routerEpoch(handle.number());
    }

    /** False before training: rows are then placed by id, to be moved later. */
    public boolean placed() {
        return Bridge.routerPlaced(handle.number());
    }

    /**
     * Where a record goes.
     *
     * @param vector dimension floats
     * @param placements receives (i64 code, i32 shard, i32 zero) per placement; room for {@link
     *     BufferLayout#PLACEMENTS_MAX} is enough
     * @return how many placements were written: 1, or up to the number of families with lsh
     * @throws EngineException INVALID for a vector that may not be stored or a buffer that is too
     *     small
     */
    public int place(long id, ByteBuffer vector, ByteBuffer placements) {
        return Bridge.routerPlace(
                handle.number(),
                id,
                BufferLayout.checked(vector, "vector"),
                BufferLayout.checkedOutput(placements, "placements"));
    }

    /**
     * The partitions that may hold an answer, ascending.
     *
     * @param query dimension floats
     * @param parallelism number of partitions, 1 to {@link #shards}
     * @param partitions receives one i32 per partition; room for {@code parallelism} is enough
     * @return how many partitions were written
     * @throws EngineException INVALID for a bad query or a buffer that is too small
     */
    public int fanOut(ByteBuffer query, int parallelism, ByteBuffer partitions) {
        return Bridge.routerFanOut(
                handle.number(),
                BufferLayout.checked(query, "query"),
                parallelism,
                BufferLayout.checkedOutput(partitions, "partitions"));
    }

    /** Shards of the collection. */
    public int shards() {
        return Bridge.routerShards(handle.number());
    }

    /** The shard of a code, any code. */
    public int shardOf(long code) {
        return Bridge.routerShardOf(handle.number(), code);
    }

    /**
     * True if ranges can change hands: with the encoder cells, and with lsh of one family. A row
     * then has one placement, and its code says which shard has it.
     */
    public boolean movable() {
        return Bridge.routerMovable(handle.number());
    }

    /** Cells, which can be split and learned anew; 0 with another encoder and before training. */
    public int cells() {
        return Bridge.routerCells(handle.number());
    }

    /** The ranges that change hands from {@code older} to this template, ascending; maybe none. */
    public MovedRanges movesSince(NativeRouter older) {
        return new MovedRanges(Bridge.routerMoves(handle.number(), older.handle.number()));
    }

    /**
     * Plans the next template for these loads. Rows and work weigh the same. With the encoder lsh
     * the plan shifts boundaries, whatever {@code limits} say.
     *
     * @param loads of {@link MovedRanges#BUCKETS} buckets, (f64 rows, f64 work) each
     * @param parallelism number of partitions
     * @return the bytes of a template one epoch later; empty if the present one is good enough
     * @throws EngineException INVALID for a template that cannot be changed
     */
    public byte[] rebalance(ByteBuffer loads, int parallelism, Limits limits) {
        return Bridge.routerRebalance(
                handle.number(),
                BufferLayout.checked(loads, "loads"),
                parallelism,
                limits.boundary(),
                limits.trigger(),
                limits.target(),
                limits.movedMax());
    }

    /**
     * Plans the next template from what lives now: cells that have grown too large are split, where
     * neighbours are is learned anew, and cells move as the loads ask for it.
     *
     * @param settingsJson the collection's settings
     * @param loads as in {@link #rebalance}
     * @param sample live rows of all partitions, see {@link NativeEngine#sample}; a row may be in
     *     it twice
     * @param share least share of its rows that a partition's sample holds
     * @param parallelism number of partitions
     * @return the bytes of a template one epoch later
     * @throws EngineException INVALID for a template without cells, or less than two rows for each
     */
    public byte[] retrain(
            String settingsJson,
            ByteBuffer loads,
            byte[] sample,
            double share,
            int parallelism,
            Limits limits) {
        return Bridge.routerRenew(
                handle.number(),
                settingsJson,
                BufferLayout.checked(loads, "loads"),
                sample,
                share,
                parallelism,
                limits.boundary(),
                limits.trigger(),
                limits.target(),
                limits.movedMax());
    }

    /**
     * What a plan must keep to.
     *
     * @param boundary true to shift boundaries between neighbours, false to move single cells
     * @param trigger load of the fullest partition over the mean at which something is done
     * @param target ratio that is good enough
     * @param movedMax share of the whole load that one plan may move
     */
    public record Limits(boolean boundary, double trigger, double target, double movedMax) {}

    /** Frees the template; idempotent. */
    @Override
    public void close() {
        handle.close();
    }
}
