package io.vstream.flink;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.row.FieldsBuilder;
import io.vstream.flink.row.Refusal;
import io.vstream.flink.row.Schema;
import org.apache.flink.api.common.functions.MapFunction;

/** Turns changes of a program into records, checked against the attributes of the collection. */
final class ChangeReader implements MapFunction<VectorChange, Incoming> {

    private static final long serialVersionUID = 1L;

    private final Schema schema;

    private transient FieldsBuilder fields;

    ChangeReader(Schema schema) {
        this.schema = schema;
    }

    @Override
    public Incoming map(VectorChange change) {
        if (fields == null) {
            fields = new FieldsBuilder(schema);
        }
        fields.clear();
        Incoming in = new Incoming();
        in.id = change.id();
        in.vector = change.vector();
        in.newer = change.newer();
        in.group = change.group();
        Refusal refusal = read(change, in);
        if (refusal != null) {
            in.kind = Incoming.Kind.UNREADABLE;
            in.reason = Reason.valueOf(refusal.name());
            in.problem = "record " + shown(change) + ": " + fields.problem();
            return in;
        }
        switch (change.kind()) {
            case UPSERT -> {
                in.kind = Incoming.Kind.UPSERT;
                in.fields = fields.row();
            }
            case UPDATE -> {
                in.kind = Incoming.Kind.UPDATE;
                in.fields = fields.change();
            }
            case DELETE -> {
                in.kind = Incoming.Kind.DELETE;
                in.fields = fields.nameAlone();
            }
            case DROP_GROUP -> in.kind = Incoming.Kind.DROP_GROUP;
            default -> throw new IllegalStateException("There is no " + change.kind() + ".");
        }
        return in;
    }

    private Refusal read(VectorChange change, Incoming in) {
        boolean row = change.kind() != VectorChange.Kind.DROP_GROUP;
        if (row && (schema.textIds() || !change.name().isEmpty())) {
            Refusal refusal = fields.name(change.name());
            if (refusal != null) {
                return refusal;
            }
            in.id = fields.id();
        }
        Refusal refusal = fields.setAll(change.attributes());
        if (refusal == null && change.payload() != null) {
            refusal = fields.payload(change.payload());
        }
        if (change.payloadRemoved()) {
            fields.removePayload();
        }
        return refusal;
    }

    private static String shown(VectorChange change) {
        String name = change.name();
        return name.isEmpty()
                ? Long.toUnsignedString(change.id())
                : name.substring(0, Math.min(64, name.length()));
    }
}
