package io.vstream.flink.row;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * What the rows of a collection carry beside their vectors. Immutable.
 *
 * <p>The position of an attribute is its column. Attributes are only ever added at the end.
 */
public final class Schema implements Serializable {

    private static final long serialVersionUID = 1L;

    /** Shards of a collection that does not say. */
    private static final int SHARDS = 128;

    /** Number ids and nothing beside the vectors. */
    public static final Schema PLAIN = new Schema(false, List.of(), 0, 0);

    private static final int PAYLOAD_MAX = 1 << 20;

    private final boolean textIds;
    private final ArrayList<Attribute> attributes;
    private final HashMap<String, Integer> columns = new HashMap<>();
    private final int payloadMax;
    private final long seed;
    private final boolean grouped;
    private final int shards;
    private final String textKey;

    /**
     * One attribute.
     *
     * @param name unique in the collection
     * @param kind of its values; every row may lack one
     */
    public record Attribute(String name, AttributeKind kind) implements Serializable {

        /**
         * An attribute by the tag of its kind.
         *
         * @throws IllegalArgumentException if there is no such kind
         */
        public static Attribute ofTag(String name, int tag) {
            AttributeKind kind = AttributeKind.ofTag(tag);
            if (kind == null) {
                throw new IllegalArgumentException("There is no attribute of kind " + tag + ".");
            }
            return new Attribute(name, kind);
        }
    }

    /**
     * @param textIds true if ids are texts, false if they are numbers
     * @param attributes by column
     * @param payloadMax most bytes of a payload; 0 for no payloads
     * @param seed of the collection, from which the key of the hash of ids is made
     */
    public Schema(boolean textIds, List<Attribute> attributes, int payloadMax, long seed) {
        this(textIds, attributes, payloadMax, seed, false, SHARDS, "");
    }

    private Schema(
            boolean textIds,
            List<Attribute> attributes,
            int payloadMax,
            long seed,
            boolean grouped,
            int shards,
            String textKey) {
        this.textKey = textKey;
        this.grouped = grouped;
        this.shards = shards;
        this.textIds = textIds;
        this.attributes = new ArrayList<>(attributes);
        this.payloadMax = payloadMax;
        this.seed = seed;
        for (int column = 0; column < attributes.size(); column++) {
            columns.put(attributes.get(column).name(), column);
        }
    }

    /** Reads the section {@code collection} of a normalised job. */
    public static Schema fromJson(JsonNode collection) {
        List<Attribute> attributes = new ArrayList<>();
        for (Map.Entry<String, JsonNode> one : collection.path("attributes").properties()) {
            attributes.add(new Attribute(one.getKey(), AttributeKind.of(one.getValue().asText())));
        }
        boolean textIds = collection.path("id").asText("u64").equals("string");
        boolean grouped = collection.path("groups").path("mode").asText().equals("isolated");
        boolean carries = textIds || grouped || !attributes.isEmpty();
        return new Schema(
                textIds,
                attributes,
                collection.path("payload-limit").asInt(carries ? PAYLOAD_MAX : 0),
                collection.path("seed").asLong(42),
                grouped,
                collection.path("shards").asInt(SHARDS),
                "");
    }

    /**
     * The same schema, of records that come with a text in place of a vector.
     *
     * @param key of the text in a record; in a query it is always {@code text}
     */
    public Schema ofTexts(String key) {
        return new Schema(textIds, attributes, payloadMax, seed, grouped, shards, key);
    }

    /** Key of the text of a record; empty where records come with vectors. */
    public String textKey() {
        return textKey;
    }

    /** True if ids are texts. */
    public boolean textIds() {
        return textIds;
    }

    /** True if rows carry nothing but numbers as ids and vectors. */
    public boolean isPlain() {
        return !textIds && !grouped && attributes.isEmpty() && payloadMax == 0;
    }

    /** True if rows are in isolated groups: each row and each query names one. */
    public boolean grouped() {
        return grouped;
    }

    /** Shards of the collection, among which groups are spread. */
    public int shards() {
        return shards;
    }

    /** Seed of the collection. */
    public long seed() {
        return seed;
    }

    /** The attributes by column. */
    public List<Attribute> attributes() {
        return List.copyOf(attributes);
    }

    /** The attribute of a column, or null where this schema ends before it. */
    public Attribute attribute(int column) {
        return column < attributes.size() ? attributes.get(column) : null;
    }

    /** How many attributes there are. */
    public int size() {
        return attributes.size();
    }

    /** The column of an attribute, or -1. */
    public int column(String name) {
        return columns.getOrDefault(name, -1);
    }

    /** Most bytes of a payload. */
    public int payloadMax() {
        return payloadMax;
    }

    /** The hash of ids that are texts. */
    public NameHash names() {
        byte[] key =
                ByteBuffer.allocate(NameHash.KEY_BYTES)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(seed)
                        .put(NameHash.DOMAIN)
                        .array();
        return new NameHash(key);
    }
}
