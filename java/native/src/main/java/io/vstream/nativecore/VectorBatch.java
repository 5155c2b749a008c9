package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Records on their way into an engine, in one reused direct buffer. Not for several threads.
 *
 * <pre>{@code
 * if (!batch.hasRoom()) {
 *     engine.write(batch.buffer(), batch.count());
 *     batch.clear();
 * }
 * batch.upsert(id, version, code, shard, vector);
 * }</pre>
 */
public final class VectorBatch {

    private static final int VERSION = 8;
    private static final int CODE = 16;
    private static final int SHARD = 24;
    private static final int OP = 26;
    private static final int FIELDS_FOLLOW = 27;
    private static final byte[] NO_NAME = new byte[0];

    private final int dimension;
    private final int upsertBytes;
    private ByteBuffer buffer;
    private int count;
    private int bytes;

    /**
     * @param dimension of every vector
     * @param records how many upserts fit, 1 or more
     */
    public VectorBatch(int dimension, int records) {
        this.dimension = dimension;
        this.upsertBytes = BufferLayout.upsertBytes(dimension);
        this.buffer = BufferLayout.allocate(Math.multiplyExact(upsertBytes, records));
    }

    /** True if one more record of any kind fits, without fields. */
    public boolean hasRoom() {
        return buffer.capacity() - bytes >= upsertBytes;
    }

    /**
     * True if one more record of any kind with these fields fits. An empty batch has room for every
     * record: its buffer grows.
     */
    public boolean hasRoom(RowFields fields) {
        int needed = upsertBytes + FieldsLayout.bytes(fields, FieldsLayout.name(fields));
        if (count == 0 && buffer.capacity() < needed) {
            buffer = BufferLayout.allocate(needed);
        }
        return buffer.capacity() - bytes >= needed;
    }

    /**
     * Adds an upsert; the vector is copied.
     *
     * @param shard of the collection, which the partition owns
     * @throws EngineException INVALID for a vector of another dimension or a full batch
     */
    public void upsert(long id, long version, long code, int shard, float[] vector) {
        upsert(id, version, code, shard, vector, RowFields.NONE);
    }

    /**
     * Adds an upsert of a row that carries something; vector and fields are copied.
     *
     * @param shard of the collection, which the partition owns
     * @throws EngineException INVALID for a vector of another dimension or a full batch
     */
    public void upsert(
            long id, long version, long code, int shard, float[] vector, RowFields fields) {
        if (vector.length != dimension) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The vector has "
                            + vector.length
                            + " elements and the collection "
                            + dimension
                            + "; send vectors of the collection's dimension.");
        }
        int at =
                header(
                        id,
                        version,
                        code,
                        shard,
                        BufferLayout.OP_UPSERT,
                        BufferLayout.vectorBytes(dimension),
                        fields);
        BufferLayout.putVector(buffer, at + BufferLayout.RECORD_HEADER_BYTES, vector);
    }

    /**
     * Adds an update: the row keeps its vector.
     *
     * @param fields what changes; the name and its check, if ids are texts
     * @throws EngineException INVALID for a full batch
     */
    public void update(long id, long version, long code, int shard, RowFields fields) {
        header(id, version, code, shard, BufferLayout.OP_UPDATE, 0, fields);
    }

    /**
     * Adds a delete.
     *
     * @throws EngineException INVALID for a full batch
     */
    public void delete(long id, long version, long code, int shard) {
        header(id, version, code, shard, BufferLayout.OP_DELETE, 0, RowFields.NONE);
    }

    /**
     * Adds a delete of a row in a group.
     *
     * @param fields its group
     * @throws EngineException INVALID for a full batch
     */
    public void delete(long id, long version, long code, int shard, RowFields fields) {
        header(id, version, code, shard, BufferLayout.OP_DELETE, 0, fields);
    }

    /**
     * Adds the drop of a group: all of its rows are gone.
     *
     * @param fields the group
     * @throws EngineException INVALID for a full batch
     */
    public void drop(long version, int shard, RowFields fields) {
        header(0, version, 0, shard, BufferLayout.OP_DROP, 0, fields);
    }

    /** The buffer to hand to {@link NativeEngine#write}. */
    public ByteBuffer buffer() {
        return buffer;
    }

    /** Records in the batch. */
    public int count() {
        return count;
    }

    /** True if there is nothing to write. */
    public boolean isEmpty() {
        return count == 0;
    }

    /** Bytes that the records take. */
    public int bytes() {
        return bytes;
    }

    /**
     * Id of a record of the batch, or the hash of its text. Cost: a step per record before it.
     *
     * @param record its number, from 0 to {@link #count} - 1
     */
    public long id(int record) {
        return buffer.getLong(begin(record));
    }

    /**
     * Id of a record of the batch as a text; empty where ids are numbers. Cost: as {@link #id}.
     *
     * @param record its number, from 0 to {@link #count} - 1
     */
    public String name(int record) {
        int at = begin(record);
        return hasFields(at) ? FieldsLayout.nameAt(buffer, fieldsOf(at)) : "";
    }

    /**
     * Group of a record of the batch; empty where there are none. Cost: as {@link #id}.
     *
     * @param record its number, from 0 to {@link #count} - 1
     */
    public String group(int record) {
        int at = begin(record);
        return hasFields(at) ? FieldsLayout.groupAt(buffer, fieldsOf(at)) : "";
    }

    private int begin(int record) {
        Objects.checkIndex(record, count);
        int at = 0;
        for (int i = 0; i < record; i++) {
            int fields = fieldsOf(at);
            at = hasFields(at) ? fields + FieldsLayout.bytesAt(buffer, fields) : fields;
        }
        return at;
    }

    private boolean hasFields(int at) {
        return buffer.get(at + FIELDS_FOLLOW) == 1;
    }

    /** Where the fields of the record at {@code at} begin, if it has some. */
    private int fieldsOf(int at) {
        boolean upsert = buffer.get(at + OP) == BufferLayout.OP_UPSERT;
        return at + (upsert ? upsertBytes : BufferLayout.RECORD_HEADER_BYTES);
    }

    /** Forgets the records; the buffer is reused. */
    public void clear() {
        count = 0;
        bytes = 0;
    }

    private int header(
            long id,
            long version,
            long code,
            int shard,
            byte op,
            int vectorBytes,
            RowFields fields) {
        boolean follow = op == BufferLayout.OP_UPDATE || !fields.isNone();
        byte[] name = follow ? FieldsLayout.name(fields) : NO_NAME;
        int fieldsBytes = follow ? FieldsLayout.bytes(fields, name) : 0;
        int length = BufferLayout.RECORD_HEADER_BYTES + vectorBytes + fieldsBytes;
        if (buffer.capacity() - bytes < length) {
            throw new EngineException(
                    EngineException.Kind.INVALID,
                    "The batch is full; write and clear it while hasRoom() is false.");
        }
        int at = bytes;
        buffer.putLong(at, id);
        buffer.putLong(at + VERSION, version);
        buffer.putLong(at + CODE, code);
        // One store for shard, op and what follows: the tail of the header is never stale.
        buffer.putLong(at + SHARD, 0L);
        buffer.putShort(at + SHARD, (short) shard);
        buffer.put(at + OP, op);
        if (follow) {
            buffer.put(at + FIELDS_FOLLOW, (byte) 1);
            FieldsLayout.put(
                    buffer,
                    at + BufferLayout.RECORD_HEADER_BYTES + vectorBytes,
                    fields,
                    name,
                    fieldsBytes);
        }
        bytes += length;
        count++;
        return at;
    }
}
