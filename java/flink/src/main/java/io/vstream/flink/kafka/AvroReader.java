package io.vstream.flink.kafka;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/**
 * Reads Avro records, of the schema in the settings or of those that a registry has. A key is read
 * for the id of a record without a value: decimal text, or under a registry an Avro long. Not for
 * several threads.
 */
final class AvroReader {

    /** More schemas than a topic has; beyond that they are asked for again. */
    private static final int SCHEMAS_MAX = 1_000;

    /**
     * How long a number that the registry does not have is not asked for again. A schema may be
     * there a moment later: a registry of several machines knows it before all of them do.
     */
    private static final long MISSING_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final boolean queries;
    private final int defaultK;
    private final io.vstream.flink.row.Schema rows;
    private final SchemaRegistry registry;
    private final AvroFields only;
    private final LongSupplier nanos;
    private final Map<Integer, Known> known = new HashMap<>();

    /**
     * What the registry said of a number.
     *
     * @param fields how records of the schema are read; null if they cannot be
     * @param missing true if there was no schema
     * @param askedNanos when that was
     */
    private record Known(AvroFields fields, boolean missing, long askedNanos) {}

    /**
     * @param schema in JSON, or null
     * @param registry HTTP address, or null
     * @param rows what rows of the collection carry
     * @throws IllegalArgumentException with a sentence if the schema cannot be used
     */
    AvroReader(
            String schema,
            String registry,
            boolean queries,
            int defaultK,
            io.vstream.flink.row.Schema rows) {
        this(schema, registry, queries, defaultK, rows, System::nanoTime);
    }

    /** With a clock of its own, for tests. */
    AvroReader(
            String schema,
            String registry,
            boolean queries,
            int defaultK,
            io.vstream.flink.row.Schema rows,
            LongSupplier nanos) {
        this.nanos = nanos;
        this.queries = queries;
        this.defaultK = defaultK;
        this.rows = rows;
        this.registry = registry == null ? null : new SchemaRegistry(registry);
        this.only = registry == null ? fields(schema, queries, defaultK, rows) : null;
    }

    /**
     * Checks that records of a schema can be read.
     *
     * @throws IllegalArgumentException with a sentence if not
     */
    static void check(String schema, boolean queries, io.vstream.flink.row.Schema rows) {
        fields(schema, queries, 1, rows);
    }

    private static AvroFields fields(
            String schema, boolean queries, int defaultK, io.vstream.flink.row.Schema rows) {
        try {
            return new AvroFields(new Schema.Parser().parse(schema), queries, defaultK, rows);
        } catch (AvroRuntimeException e) {
            throw new IllegalArgumentException(
                    "schema: this is not a schema of Avro (" + e.getMessage() + "). Correct it.",
                    e);
        }
    }

    /** Reads a value; returns why it was refused, or null. */
    Reason read(byte[] value, Incoming record) {
        if (registry == null) {
            return only.read(value, 0, record);
        }
        int number = SchemaRegistry.number(value);
        if (number == SchemaRegistry.NONE) {
            return Reason.MALFORMED_LINE;
        }
        Known schema = known.get(number);
        long now = nanos.getAsLong();
        if (schema == null || schema.missing && now - schema.askedNanos >= MISSING_NANOS) {
            schema = ask(number, now);
            if (known.size() >= SCHEMAS_MAX) {
                known.clear();
            }
            known.put(number, schema);
        }
        return schema.fields == null
                ? Reason.MALFORMED_LINE
                : schema.fields.read(value, SchemaRegistry.HEADER_BYTES, record);
    }

    /** True if a key is in Avro, and not a text. */
    boolean isAvro(byte[] key) {
        return registry != null && SchemaRegistry.number(key) != SchemaRegistry.NONE;
    }

    /** Reads the id of a key that is an Avro long. */
    Reason id(byte[] key, Incoming record) {
        try {
            BinaryDecoder decoder =
                    DecoderFactory.get()
                            .binaryDecoder(
                                    key,
                                    SchemaRegistry.HEADER_BYTES,
                                    key.length - SchemaRegistry.HEADER_BYTES,
                                    null);
            record.id = decoder.readLong();
            return decoder.isEnd() ? null : Reason.BAD_ID;
        } catch (IOException | RuntimeException e) {
            return Reason.BAD_ID;
        }
    }

    private Known ask(int number, long now) {
        Schema schema = registry.schema(number);
        try {
            boolean missing = schema == null;
            AvroFields fields = missing ? null : new AvroFields(schema, queries, defaultK, rows);
            return new Known(fields, missing, now);
        } catch (IllegalArgumentException | AvroRuntimeException e) {
            return new Known(null, false, now);
        }
    }
}
