package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The bytes that cross the language border, drawn once. {@code buffer.rs} is the other side; both
 * are held to the files in {@code src/test/resources/golden}.
 *
 * <pre>
 * record   i64 id | i64 version | i64 code | u16 shard | u8 op | u8 fields follow | u8[4] zero
 *          | vector (upsert only) | fields (where they follow)
 * queries  i32 count | i32 flags | count x ( i32 k | i32 effort | vector | asked (flag 1) )
 * answers  per query: i32 n | i32 leaves scanned; of a group, its rows; -1 less that if rows were
 *                     left out
 *                     | n x ( i64 id | i64 version | f32 distance | i32 flags )
 *                     | n x f64 order (flag 2) | a fields block for each row with flag 1
 *          order: what the rows ascend by, where that is not the distance; all have it, or none
 * placement  i64 code | i32 shard | i32 zero
 * partition  i32
 * vector   dimension x f32, padded with zeros to a multiple of 8 bytes
 * fields   u32 bytes of the block | u16 flags | u16 columns | u64 check
 *          | u32 name bytes | u32 attribute bytes | u32 payload bytes | u32 group bytes
 *          | name | attributes | payload | columns x u16 | group | zeros to a multiple of 8 bytes
 *          flags: 1 has a payload, 2 removes the payload, 4 did not fit; the columns are removed
 * asked    u32 bytes of the block | u16 flags | u16 columns | f32 radius | u32 filter bytes
 *          | filter | columns x u16 | u32 group bytes, group (flag 16)
 *          | u32 order bytes, order (flag 32) | zeros to a multiple of 8 bytes
 *          flags: 1 filter, 2 radius, 4 payload wanted, 8 names wanted, 16 group, 32 order; the
 *          columns are wanted
 * </pre>
 *
 * Everything is in native byte order, which is little-endian on every supported platform, and
 * begins at a multiple of 8 bytes.
 */
public final class BufferLayout {

    /** Op code of an upsert. */
    public static final byte OP_UPSERT = 0;

    /** Op code of a delete, which carries no vector. */
    public static final byte OP_DELETE = 1;

    /** Op code of an update, which carries fields and no vector. */
    public static final byte OP_UPDATE = 2;

    /** Op code of the drop of a group, which carries its name and no vector. */
    public static final byte OP_DROP = 3;

    /** Flag of a batch of queries, each of which has an {@code asked} block. */
    static final int FLAG_ASKED = 1;

    /** Effort: the engine chooses how much of the index to read. */
    public static final int EFFORT_AUTO = 0;

    /** Effort: compare with every vector. */
    public static final int EFFORT_EXACT = -1;

    /** Bytes of a record before its vector; all of a delete. */
    public static final int RECORD_HEADER_BYTES = 32;

    /** Bytes of a query batch before its first query. */
    public static final int QUERIES_HEADER_BYTES = 8;

    /** Bytes of a query before its vector. */
    public static final int QUERY_HEADER_BYTES = 8;

    /** Bytes of an answer before its first neighbour. */
    public static final int ANSWER_HEADER_BYTES = 8;

    /** Bytes of one neighbour. */
    public static final int NEIGHBOR_BYTES = 24;

    /** Bytes of what one neighbour is in order of, where that is not the distance. */
    static final int ORDER_BYTES = Double.BYTES;

    /** Bytes of one placement. */
    public static final int PLACEMENT_BYTES = 16;

    /** Most placements of one record: one per hash family. */
    public static final int PLACEMENTS_MAX = 64;

    /** Bytes of one partition number. */
    public static final int PARTITION_BYTES = Integer.BYTES;

    private static final int SHARD_OF_PLACEMENT = 8;

    private BufferLayout() {}

    /** Bytes of a vector with its padding. */
    public static int vectorBytes(int dimension) {
        return (dimension * Float.BYTES + 7) & ~7;
    }

    /** Bytes of an upsert. */
    public static int upsertBytes(int dimension) {
        return RECORD_HEADER_BYTES + vectorBytes(dimension);
    }

    /** Bytes of one query. */
    public static int queryBytes(int dimension) {
        return QUERY_HEADER_BYTES + vectorBytes(dimension);
    }

    /** Bytes that the answer of one query may need. */
    public static int answerBytes(int k) {
        return ANSWER_HEADER_BYTES + k * NEIGHBOR_BYTES;
    }

    /** A direct buffer in native byte order, aligned to 8 bytes. */
    public static ByteBuffer allocate(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    }

    /** Copies {@code vector} to {@code buffer} at {@code index} and zeroes its padding. */
    public static void putVector(ByteBuffer buffer, int index, float[] vector) {
        buffer.slice(index, vector.length * Float.BYTES)
                .order(buffer.order())
                .asFloatBuffer()
                .put(vector);
        if ((vector.length & 1) == 1) {
            buffer.putInt(index + vector.length * Float.BYTES, 0);
        }
    }

    /** Code of the placement at {@code index}, counted in placements. */
    public static long placementCode(ByteBuffer placements, int index) {
        return placements.getLong(index * PLACEMENT_BYTES);
    }

    /** Shard of the placement at {@code index}, counted in placements. */
    public static int placementShard(ByteBuffer placements, int index) {
        return placements.getInt(index * PLACEMENT_BYTES + SHARD_OF_PLACEMENT);
    }

    /** Partition at {@code index}, counted in partitions. */
    public static int partition(ByteBuffer partitions, int index) {
        return partitions.getInt(index * PARTITION_BYTES);
    }

    /** Refuses what the native side could not write to. */
    static ByteBuffer checkedOutput(ByteBuffer buffer, String name) {
        if (buffer != null && buffer.isReadOnly()) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The buffer of " + name + " is read-only; pass one that may be written.");
        }
        return checked(buffer, name);
    }

    /** Refuses what the native side could not read, or would read wrongly. */
    static ByteBuffer checked(ByteBuffer buffer, String name) {
        if (buffer == null || !buffer.isDirect() || buffer.order() != ByteOrder.nativeOrder()) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The buffer of "
                            + name
                            + " must be direct and in native byte order; allocate it with"
                            + " BufferLayout.allocate.");
        }
        return buffer;
    }
}
