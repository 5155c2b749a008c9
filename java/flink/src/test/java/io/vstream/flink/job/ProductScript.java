package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.row.AttributeKind;
import io.vstream.flink.row.FieldsBuilder;
import io.vstream.flink.row.Schema;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSplit;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.Predicate;

/**
 * The records of a {@link WriteScript} as products: texts as ids, attributes and payloads, updates
 * of any product that was written, events that come too late, and queries with filters. All of it
 * is a function of (seed, position).
 *
 * @param of writes and queries, gates and pace
 * @param sizedFrom position from which on products have the attribute {@code size}, which the
 *     schema lacks before
 */
record ProductScript(WriteScript of, long sizedFrom) implements Script {

    private static final long NEVER = Long.MAX_VALUE;
    private static final long LATE = 1_000;
    private static final List<String> COLOURS = List.of("red", "green", "blue", "black");
    private static final List<Schema.Attribute> ATTRIBUTES =
            List.of(
                    new Schema.Attribute("price", AttributeKind.F64),
                    new Schema.Attribute("colour", AttributeKind.KEYWORD),
                    new Schema.Attribute("stock", AttributeKind.I64));
    private static final Schema.Attribute SIZE = new Schema.Attribute("size", AttributeKind.I64);

    /** The seed of the collection of a {@link Scenario}. */
    private static final long COLLECTION_SEED = 7;

    /** Products without a size. */
    ProductScript(WriteScript of) {
        this(of, NEVER);
    }

    /**
     * What a record does.
     *
     * @param values by name; null for those that go
     * @param payload null for none; of an update for the present one
     * @param newer number by which the changes of an id are ordered
     */
    record Change(
            Incoming.Kind kind,
            String id,
            float[] vector,
            Map<String, Object> values,
            byte[] payload,
            boolean payloadGoes,
            long newer) {}

    /**
     * What a query asks beside its vector.
     *
     * @param filter null for none
     * @param with names that rows are to carry
     * @param matches what the filter says
     */
    record Ask(String filter, List<String> with, Predicate<Map<String, Object>> matches) {}

    private boolean sized() {
        return sizedFrom < NEVER;
    }

    /** The schema's keys of a collection. */
    String keys() {
        return "\"id\": \"string\", \"attributes\": {\"price\": \"f64\", \"colour\": \"keyword\","
                + " \"stock\": \"i64\""
                + (sized() ? ", \"size\": \"i64\"}" : "}");
    }

    private Schema schema() {
        List<Schema.Attribute> attributes = new ArrayList<>(ATTRIBUTES);
        if (sized()) {
            attributes.add(SIZE);
        }
        return new Schema(true, attributes, 1 << 20, COLLECTION_SEED);
    }

    /** The write at a position. */
    Change change(long position) {
        Incoming write = new Incoming();
        of.fill(position, write);
        SplittableRandom random = new SplittableRandom(of.seed() * 131 + position);
        long newer = random.nextInt(12) == 0 ? position - LATE : position;
        Map<String, Object> values = new HashMap<>();
        if (write.kind == Incoming.Kind.DELETE) {
            return new Change(
                    Incoming.Kind.DELETE, id(write.id), new float[0], values, null, false, newer);
        }
        byte[] payload = ("{\"n\":" + position + "}").getBytes(StandardCharsets.UTF_8);
        if (sized() && position >= sizedFrom && random.nextInt(4) > 0) {
            values.put("size", (long) random.nextInt(50));
        }
        if (random.nextInt(5) >= 2) {
            values.put("price", (double) random.nextInt(100));
            values.put("colour", COLOURS.get(random.nextInt(COLOURS.size())));
            values.put("stock", (long) random.nextInt(5));
            return new Change(
                    Incoming.Kind.UPSERT,
                    id(write.id),
                    write.vector,
                    values,
                    payload,
                    false,
                    newer);
        }
        // Of any product, so that those on their way to another partition are among them.
        String id = id(random.nextLong(write.id + 1));
        if (random.nextInt(3) > 0) {
            values.put("price", (double) random.nextInt(100));
        } else {
            values.put("colour", null);
        }
        int what = random.nextInt(6);
        return new Change(
                Incoming.Kind.UPDATE,
                id,
                new float[0],
                values,
                what == 0 ? payload : null,
                what == 1,
                newer);
    }

    private static String id(long number) {
        return "product/" + number;
    }

    /** What a query asks. */
    Ask ask(long query) {
        List<String> all = new ArrayList<>(List.of("price", "colour", "stock", "payload"));
        if (sized()) {
            all.add("size");
        }
        if (query % 4 == 0) {
            return new Ask(null, all, values -> true);
        }
        if (query % 4 == 2) {
            return new Ask(
                    "{\"must\":[{\"key\":\"colour\",\"match\":{\"any\":[\"red\",\"blue\"]}}],"
                            + "\"must_not\":[{\"key\":\"stock\",\"range\":{\"lt\":2}}]}",
                    all,
                    values ->
                            ("red".equals(values.get("colour"))
                                            || "blue".equals(values.get("colour")))
                                    && (long) values.get("stock") >= 2);
        }
        if (sized() && query % 8 == 1) {
            return new Ask(
                    "{\"must\":[{\"key\":\"size\",\"range\":{\"gte\":10}}]}",
                    List.of("size"),
                    values -> values.get("size") != null && (long) values.get("size") >= 10);
        }
        return new Ask(
                "{\"must\":[{\"key\":\"price\",\"range\":{\"lt\":50}}]}",
                List.of("price"),
                values -> (double) values.get("price") < 50);
    }

    private void fill(long position, FieldsBuilder fields, Incoming into) {
        into.clearExtras();
        if (into.kind == Incoming.Kind.QUERY) {
            Ask ask = ask(into.id);
            into.filter = ask.filter;
            into.with = ask.with.toArray(String[]::new);
            return;
        }
        Change change = change(position);
        fields.clear();
        fields.name(change.id);
        fields.setAll(change.values);
        if (change.payload != null) {
            fields.payload(change.payload);
        }
        if (change.payloadGoes) {
            fields.removePayload();
        }
        into.kind = change.kind;
        into.id = fields.id();
        into.vector = change.vector;
        into.newer = change.newer;
        into.fields =
                switch (change.kind) {
                    case UPSERT -> fields.row();
                    case UPDATE -> fields.change();
                    default -> fields.nameAlone();
                };
    }

    @Override
    public Player play(ScriptSplit from, Gate gate) {
        return new ProductPlayer(of.play(from, gate), new FieldsBuilder(schema()));
    }

    private final class ProductPlayer extends PlayerOfWrites {

        private final FieldsBuilder fields;

        private ProductPlayer(Player writes, FieldsBuilder fields) {
            super(writes);
            this.fields = fields;
        }

        @Override
        public Outcome next(long now, Incoming into) throws IOException {
            Outcome outcome = writes.next(now, into);
            if (outcome == Outcome.RECORD) {
                fill(writes.position().position() - 1, fields, into);
            }
            return outcome;
        }
    }
}
