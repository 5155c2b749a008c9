package io.vstream.flink.ingest;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.NativeFilters;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Turns what a query asks in words into what partitions understand. Filters are compiled once and
 * kept by their text, since streams of queries repeat them. Not for several threads.
 */
public final class Asking implements AutoCloseable {

    /** Stands in {@code with} for the payload. */
    private static final String PAYLOAD = "payload";

    /** Filters that are kept, and their bytes with the texts; those not used longest go first. */
    private static final int FILTERS_MAX = 1_024;

    private static final int BYTES_MAX = 8 << 20;

    /** Longer filters are refused. */
    private static final int TEXT_MAX = 1 << 20;

    private static final int COMPILED_MAX = 2 << 20;

    private final Schema schema;
    private final String collection;
    private final LinkedHashMap<String, byte[]> compiled = new LinkedHashMap<>(64, 0.75f, true);
    private final Asked usual;
    private NativeFilters filters;
    private long bytes;
    private Asked asked;

    /**
     * @param schema of the collection
     * @param collection normalised settings as JSON
     */
    public Asking(Schema schema, String collection) {
        this.schema = schema;
        this.collection = collection;
        // Without its text an id says nothing.
        usual =
                schema.textIds()
                        ? new Asked(
                                Asked.NO_FILTER, Asked.NOTHING.columns(), false, true, Float.NaN)
                        : Asked.NOTHING;
    }

    /** What the last query asks. */
    public Asked asked() {
        return asked;
    }

    /** Reads what a query asks; returns why it was refused, or null. */
    public Reason read(Incoming query) {
        Reason reason = readFields(query);
        if (reason == null && !query.order.isEmpty()) {
            reason = refuseOrder(query);
        }
        if (reason == null && schema.grouped()) {
            asked = asked.in(query.group, query.order);
        }
        return reason;
    }

    private Reason refuseOrder(Incoming query) {
        if (!schema.grouped()) {
            query.problem = "words and ranks need isolated groups";
            return Reason.BAD_RANK;
        }
        if (query.vector.length == 0 && !Float.isNaN(query.radius)) {
            query.problem = "a radius needs a vector";
            return Reason.BAD_RADIUS;
        }
        try {
            filters().checkOrder(query.order);
            return null;
        } catch (EngineException e) {
            if (e.kind() != EngineException.Kind.INVALID) {
                throw e;
            }
            query.problem = e.getMessage();
            return Reason.BAD_RANK;
        }
    }

    private NativeFilters filters() {
        if (filters == null) {
            filters = NativeFilters.open(collection);
        }
        return filters;
    }

    private Reason readFields(Incoming query) {
        asked = usual;
        boolean bounded = !Float.isNaN(query.radius);
        if (query.filter == null && query.with.length == 0 && !bounded) {
            return null;
        }
        if (bounded && !Float.isFinite(query.radius)) {
            return Reason.BAD_RADIUS;
        }
        short[] columns = new short[query.with.length];
        int count = 0;
        boolean payload = false;
        for (String name : query.with) {
            int column = schema.column(name);
            if (column >= 0) {
                columns[count++] = (short) column;
            } else if (name.equals(PAYLOAD)) {
                payload = true;
            } else {
                query.problem = "the collection has no attribute '" + shown(name) + "'";
                return Reason.UNKNOWN_ATTRIBUTE;
            }
        }
        byte[] filter = query.filter == null ? Asked.NO_FILTER : compile(query);
        if (filter == null) {
            return Reason.BAD_FILTER;
        }
        asked = new Asked(filter, ascending(columns, count), payload, usual.names(), query.radius);
        return null;
    }

    private static short[] ascending(short[] columns, int count) {
        short[] sorted = Arrays.copyOf(columns, count);
        Arrays.sort(sorted);
        int kept = 0;
        for (int i = 0; i < count; i++) {
            if (i == 0 || sorted[i] != sorted[i - 1]) {
                sorted[kept++] = sorted[i];
            }
        }
        return Arrays.copyOf(sorted, kept);
    }

    private byte[] compile(Incoming query) {
        String text = query.filter;
        byte[] known = compiled.get(text);
        if (known != null) {
            return known;
        }
        if (text.length() > TEXT_MAX) {
            query.problem = "a filter has at most " + TEXT_MAX + " characters";
            return null;
        }
        byte[] made;
        try {
            made = filters().compile(text);
        } catch (EngineException e) {
            if (e.kind() != EngineException.Kind.INVALID) {
                throw e;
            }
            query.problem = e.getMessage();
            return null;
        }
        if (made.length > COMPILED_MAX) {
            query.problem = "a filter has at most " + COMPILED_MAX + " bytes";
            return null;
        }
        keep(text, made);
        return made;
    }

    private void keep(String text, byte[] made) {
        compiled.put(text, made);
        bytes += size(text, made);
        var oldest = compiled.entrySet().iterator();
        while (compiled.size() > FILTERS_MAX || bytes > BYTES_MAX) {
            Map.Entry<String, byte[]> one = oldest.next();
            bytes -= size(one.getKey(), one.getValue());
            oldest.remove();
        }
    }

    private static long size(String text, byte[] made) {
        return 2L * text.length() + made.length;
    }

    private static String shown(String name) {
        return name.length() > 64 ? name.substring(0, 64) : name;
    }

    @Override
    public void close() {
        if (filters != null) {
            filters.close();
        }
    }
}
