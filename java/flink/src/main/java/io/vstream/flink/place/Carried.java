package io.vstream.flink.place;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.row.FieldsBuilder;
import io.vstream.flink.row.RowFieldsSerializer;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.RowFields;
import java.time.Duration;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;

/**
 * What place remembers of the current row beside its location. Each is registered when it is first
 * needed, so a stream without such records has no state for them.
 *
 * <ul>
 *   <li>The check of its name, where ids are texts: another text with the same id is refused.
 *   <li>What it carries, while rows are not placed: it is sent again then.
 *   <li>The largest number by which its records were ordered. It outlives a delete, so that an
 *       older record does not bring the row back, and is forgotten {@link #ORDER_KEPT} after it was
 *       set.
 * </ul>
 */
public final class Carried {

    /** How long the order of an id is remembered after its last record. */
    public static final Duration ORDER_KEPT = Duration.ofDays(7);

    private final KeyedStateStore store;
    private final Schema schema;
    private final FieldsBuilder builder;
    private ValueState<Long> check;
    private ValueState<RowFields> held;
    private ValueState<Long> order;

    /**
     * @param store of the keyed state
     * @param schema of the collection
     */
    Carried(KeyedStateStore store, Schema schema) {
        this.store = store;
        this.schema = schema;
        builder = new FieldsBuilder(schema);
    }

    /** True if a record of the id with this number or a larger one was here. */
    boolean isStale(VectorRecord record) throws Exception {
        if (record.newer == Incoming.ANY_ORDER) {
            return false;
        }
        Long last = order().value();
        return last != null && record.newer <= last;
    }

    /** The record was applied: those before it by their number are stale from now on. */
    void applied(VectorRecord record) throws Exception {
        if (record.newer != Incoming.ANY_ORDER) {
            order().update(record.newer);
        }
    }

    /** True if the id of the record is held by a row with another text. */
    boolean isOther(VectorRecord record) throws Exception {
        if (!schema.textIds()) {
            return false;
        }
        Long known = check().value();
        return known != null && known != record.fields.check();
    }

    /** The row was written. */
    void written(VectorRecord record) throws Exception {
        if (schema.textIds() && check().value() == null) {
            check().update(record.fields.check());
        }
    }

    /** Keeps what the row carries until it is placed. */
    void hold(RowFields fields) throws Exception {
        if (schema.isPlain()) {
            return;
        }
        if (fields.isNone()) {
            held().clear();
        } else {
            held().update(fields);
        }
    }

    /** Changes what the row carries once it is placed. */
    void change(RowFields change) throws Exception {
        hold(builder.updated(heldFields(), change));
    }

    /** What the row carries, if it is not placed. */
    RowFields heldFields() throws Exception {
        RowFields fields = schema.isPlain() ? null : held().value();
        return fields == null ? RowFields.NONE : fields;
    }

    /** The row is placed: what it carries is where the row is. */
    void release() throws Exception {
        if (!schema.isPlain()) {
            held().clear();
        }
    }

    /** The row is no more. */
    void remove() throws Exception {
        if (schema.textIds()) {
            check().clear();
        }
    }

    private ValueState<Long> check() {
        if (check == null) {
            check = store.getState(new ValueStateDescriptor<>("check", LongSerializer.INSTANCE));
        }
        return check;
    }

    private ValueState<RowFields> held() {
        if (held == null) {
            held =
                    store.getState(
                            new ValueStateDescriptor<>("held-fields", new RowFieldsSerializer()));
        }
        return held;
    }

    private ValueState<Long> order() {
        if (order == null) {
            ValueStateDescriptor<Long> descriptor =
                    new ValueStateDescriptor<>("order", LongSerializer.INSTANCE);
            descriptor.enableTimeToLive(StateTtlConfig.newBuilder(ORDER_KEPT).build());
            order = store.getState(descriptor);
        }
        return order;
    }
}
