package io.vstream.flink.text;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.LineParser;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.NativeEmbedder;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Reads lines that nobody has read yet, and checks what records with texts need. What breaks a rule
 * goes on as a record that could not be read; decode counts it.
 */
final class ReadFunction extends ProcessFunction<Incoming, Incoming> {

    private static final long serialVersionUID = 1L;

    /** Characters after the name of a document in the name of a chunk. */
    private static final int CHUNK_SUFFIX = 48;

    private static final int NAME_BYTES_MAX = 512 - CHUNK_SUFFIX;

    private static final String[] WITH_PAYLOAD = {"payload"};

    private final Schema schema;
    private final int defaultK;
    private final String counter;

    private transient LineParser parser;
    private transient Count read;

    /**
     * @param schema of records with texts
     * @param defaultK neighbours of a query that does not say
     * @param counter name of the count of the records
     */
    ReadFunction(Schema schema, int defaultK, String counter) {
        this.schema = schema;
        this.defaultK = defaultK;
        this.counter = counter;
    }

    @Override
    public void open(OpenContext context) {
        parser = new LineParser(defaultK, schema);
        read = new Meters(getRuntimeContext().getMetricGroup()).count(counter);
    }

    @Override
    public void processElement(Incoming record, Context context, Collector<Incoming> out) {
        Reason reason =
                switch (record.kind) {
                    case VECTOR_LINE, QUERY_LINE -> parser.parse(record);
                    case LONG_LINE -> {
                        record.clearExtras();
                        yield Reason.LINE_TOO_LONG;
                    }
                    default -> null;
                };
        if (reason == null) {
            reason = check(record);
        }
        if (reason != null) {
            record.kind = Incoming.Kind.UNREADABLE;
            record.reason = reason;
        }
        if (record.kind == Incoming.Kind.UNREADABLE) {
            record.text = null;
        }
        record.document = record.id;
        out.collect(record);
        read.inc();
    }

    private static Reason check(Incoming record) {
        return switch (record.kind) {
            case QUERY -> checkQuery(record);
            case UPSERT, UPDATE, DELETE -> checkDocument(record);
            default -> null;
        };
    }

    private static Reason checkQuery(Incoming query) {
        if (query.text == null || utf8(query.text) > NativeEmbedder.TEXT_BYTES_MAX) {
            query.problem = "a question has a text of at most 64 KiB";
            return query.text == null ? Reason.MALFORMED_LINE : Reason.TOO_LARGE;
        }
        if (query.with.length == 0) {
            query.with = WITH_PAYLOAD;
        }
        return null;
    }

    private static Reason checkDocument(Incoming record) {
        if (record.kind == Incoming.Kind.UPSERT && record.text == null) {
            record.problem = "a document has a text";
            return Reason.MALFORMED_LINE;
        }
        if (record.kind != Incoming.Kind.UPSERT && record.text != null) {
            record.problem =
                    "an update of a document changes its attributes, and an upsert its text";
            return Reason.MALFORMED_LINE;
        }
        if (record.fields.payload() != null || record.fields.payloadRemoved()) {
            record.problem =
                    "a document has attributes and no payload: that of its rows is the text";
            return Reason.WRONG_TYPE;
        }
        if (utf8(record.fields.name()) > NAME_BYTES_MAX) {
            record.problem = "the id of a document has at most " + NAME_BYTES_MAX + " bytes";
            return Reason.BAD_ID;
        }
        return null;
    }

    private static int utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8).length;
    }
}
