package io.vstream.flink.kafka;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.FieldsParser;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.LineParser;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.ResolvingDecoder;

/**
 * Reads records of one Avro schema.
 *
 * <ol>
 *   <li>Of the writer's fields those that mean something here are a schema of their own; Avro's
 *       decoder resolves the one to the other, and so skips the rest.
 *   <li>They are read straight into the record. Nothing is allocated by a length that the bytes
 *       claim: an array stops where no vector is that long, and a text is within the record.
 * </ol>
 *
 * <p>{@code id} (or {@code query_id}) is a long or an int, {@code vector} an array of floats or
 * doubles, {@code deleted} a boolean, {@code k} and {@code effort} ints. Each may be in a union
 * with null. Where ids are texts, {@code id} is a string.
 *
 * <p>Fields named like attributes of the collection are its attributes, see {@link AvroValues}, and
 * {@code payload} (bytes, or a string in UTF-8) its payload. {@code update} is true for a record
 * that changes these and no vector, {@code if_newer} a long. Where rows are in groups, {@code
 * group} is a string, and {@code drop_group} is true for a record that removes one. A query may
 * have {@code filter}, a string in JSON, {@code with}, an array of strings, and {@code radius}. Not
 * for several threads.
 */
final class AvroFields {

    private static final Set<Schema.Type> NUMBER = Set.of(Schema.Type.FLOAT, Schema.Type.DOUBLE);

    private final boolean queries;
    private final int defaultK;
    private final Schema fields;
    private final ResolvingDecoder decoder;
    private final LimitedDecoder limited = new LimitedDecoder();
    private final AvroValues values;
    private final FieldsParser extras;
    private final io.vstream.flink.row.Schema rows;
    private BinaryDecoder bytes;
    private float[] floats = new float[128];

    private boolean hasId;
    private boolean hasVector;
    private boolean deleted;
    private boolean updated;
    private boolean dropped;

    /**
     * @param writer schema of the records
     * @param queries true for queries, false for vector records
     * @param defaultK neighbours of a query that does not say
     * @param rows what rows of the collection carry
     * @throws IllegalArgumentException with a sentence if the schema lacks what is needed
     */
    AvroFields(Schema writer, boolean queries, int defaultK, io.vstream.flink.row.Schema rows) {
        this.queries = queries;
        this.defaultK = defaultK;
        this.rows = rows;
        extras = new FieldsParser(rows);
        fields = known(writer, AvroValues.types(queries, rows));
        try {
            decoder = DecoderFactory.get().resolvingDecoder(writer, fields, limited);
            values = new AvroValues(decoder);
        } catch (IOException e) {
            throw new IllegalArgumentException("The Avro schema cannot be resolved.", e);
        }
    }

    /** Reads {@code value} from {@code from} on; returns why it was refused, or null. */
    Reason read(byte[] value, int from, Incoming record) {
        hasId = false;
        hasVector = false;
        deleted = false;
        updated = false;
        dropped = false;
        extras.begin();
        record.clearExtras();
        record.k = defaultK;
        record.effort = 0;
        try {
            bytes = DecoderFactory.get().binaryDecoder(value, from, value.length - from, bytes);
            limited.read(bytes, value.length);
            decoder.configure(limited);
            for (Schema.Field field : decoder.readFieldOrder()) {
                Reason reason = field(field, record);
                if (reason != null) {
                    record.problem = extras.problem();
                    return reason;
                }
            }
            decoder.drain();
            if (!bytes.isEnd()) {
                return Reason.MALFORMED_LINE;
            }
        } catch (IOException | RuntimeException e) {
            // Avro says in many ways that bytes are none of the schema's.
            return Reason.MALFORMED_LINE;
        }
        if (dropped) {
            record.kind = Incoming.Kind.DROP_GROUP;
            return null;
        }
        if (!hasId) {
            return Reason.BAD_ID;
        }
        if (queries) {
            record.kind = Incoming.Kind.QUERY;
            return hasVector ? null : Reason.MALFORMED_LINE;
        }
        record.kind =
                deleted
                        ? Incoming.Kind.DELETE
                        : updated ? Incoming.Kind.UPDATE : Incoming.Kind.UPSERT;
        extras.finish(record);
        return hasVector || deleted || updated ? null : Reason.MALFORMED_LINE;
    }

    private Reason field(Schema.Field field, Incoming record) throws IOException {
        Schema schema = field.schema();
        if (schema.getType() == Schema.Type.UNION) {
            schema = schema.getTypes().get(decoder.readIndex());
            if (schema.getType() == Schema.Type.NULL) {
                decoder.readNull();
                return missing(field.name());
            }
        }
        if (!queries && AvroValues.isAttribute(rows, field.name())) {
            return extras.set(field.name(), values.read(schema));
        }
        return queries ? ofQuery(field, schema, record) : ofRow(field, schema, record);
    }

    private Reason missing(String field) {
        if (!queries && AvroValues.isAttribute(rows, field)) {
            return extras.set(field, null);
        }
        return null;
    }

    private Reason ofRow(Schema.Field field, Schema schema, Incoming record) throws IOException {
        switch (field.name()) {
            case "id" -> {
                hasId = true;
                if (rows.textIds()) {
                    return extras.id(decoder.readString(), record);
                }
                record.id = whole(schema);
            }
            case "vector" -> {
                return vector(schema.getElementType().getType() == Schema.Type.FLOAT, record);
            }
            case "deleted" -> deleted = decoder.readBoolean();
            case "group" -> record.group = decoder.readString();
            case "drop_group" -> dropped = decoder.readBoolean();
            case "update" -> updated = decoder.readBoolean();
            case "if_newer" -> record.newer = whole(schema);
            default -> {
                return extras.payload(values.bytes(schema));
            }
        }
        return null;
    }

    private Reason ofQuery(Schema.Field field, Schema schema, Incoming record) throws IOException {
        switch (field.name()) {
            case "query_id" -> {
                record.id = whole(schema);
                hasId = true;
            }
            case "vector" -> {
                return vector(schema.getElementType().getType() == Schema.Type.FLOAT, record);
            }
            case "filter" -> record.filter = decoder.readString();
            case "group" -> record.group = decoder.readString();
            case "with" -> {
                Object names = values.read(schema);
                if (!(names instanceof List<?> list) || list.size() > FieldsParser.WITH_MAX) {
                    return Reason.MALFORMED_LINE;
                }
                record.with = list.toArray(String[]::new);
            }
            case "radius" -> {
                record.radius = ((Number) values.read(schema)).floatValue();
                return Float.isFinite(record.radius) ? null : Reason.BAD_RADIUS;
            }
            case "k" -> record.k = clamp(whole(schema));
            default -> record.effort = clamp(whole(schema));
        }
        return null;
    }

    private long whole(Schema schema) throws IOException {
        return schema.getType() == Schema.Type.LONG ? decoder.readLong() : decoder.readInt();
    }

    /** A number that does not fit into an int is out of range for k and effort, like a negative. */
    private static int clamp(long value) {
        return value == (int) value ? (int) value : Integer.MIN_VALUE;
    }

    private Reason vector(boolean single, Incoming record) throws IOException {
        int length = 0;
        for (long block = decoder.readArrayStart(); block > 0; block = decoder.arrayNext()) {
            if (block > LineParser.VECTOR_MAX - length) {
                return Reason.WRONG_DIMENSION;
            }
            int end = length + (int) block;
            if (end > floats.length) {
                floats = Arrays.copyOf(floats, Math.max(end, floats.length * 2));
            }
            for (; length < end; length++) {
                floats[length] = single ? decoder.readFloat() : (float) decoder.readDouble();
            }
        }
        if (record.vector.length != length) {
            record.vector = new float[length];
        }
        System.arraycopy(floats, 0, record.vector, 0, length);
        hasVector = true;
        return null;
    }

    private static Schema known(Schema writer, Map<String, Set<Schema.Type>> types) {
        String id = types.containsKey("query_id") ? "query_id" : "id";
        if (writer.getType() != Schema.Type.RECORD
                || writer.getField(id) == null
                || writer.getField("vector") == null) {
            throw new IllegalArgumentException(
                    "The Avro schema is not a record with the fields "
                            + id
                            + " and vector; add them.");
        }
        List<Schema.Field> fields = new ArrayList<>();
        for (Schema.Field field : writer.getFields()) {
            if (types.containsKey(field.name())) {
                check(field, types.get(field.name()));
                fields.add(new Schema.Field(field.name(), field.schema(), null, null));
            }
        }
        return Schema.createRecord(
                writer.getName(), null, writer.getNamespace(), writer.isError(), fields);
    }

    private static void check(Schema.Field field, Set<Schema.Type> allowed) {
        List<Schema> branches =
                field.schema().isUnion() ? field.schema().getTypes() : List.of(field.schema());
        for (Schema branch : branches) {
            boolean right = allowed.contains(branch.getType());
            if (right && branch.getType() == Schema.Type.ARRAY) {
                Schema.Type element = branch.getElementType().getType();
                boolean numbers = field.name().equals("vector");
                right = numbers ? NUMBER.contains(element) : element == Schema.Type.STRING;
            }
            if (!right && !(field.schema().isUnion() && branch.getType() == Schema.Type.NULL)) {
                throw new IllegalArgumentException(
                        "The Avro field "
                                + field.name()
                                + " is "
                                + field.schema()
                                + "; it must be one of "
                                + allowed
                                + (field.name().equals("vector") ? " of float or double" : "")
                                + (allowed.equals(AvroValues.TEXTS) ? " of string" : "")
                                + ", or of one of these and null.");
            }
        }
    }
}
