package io.vstream.flink.text;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.row.AttributesEncoder;
import io.vstream.flink.row.NameHash;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;

/**
 * Makes the records of a document's chunks: rows whose ids are {@code DOCUMENT#HASH}, whose
 * attributes are those of the document, and whose payload says where the chunk comes from. Not for
 * several threads.
 */
final class ChunkRecords {

    private static final JsonFactory JSON = new JsonFactory();

    private final Schema schema;
    private final NameHash names;
    private final AttributesEncoder attributes;

    /**
     * @param schema of the collection
     */
    ChunkRecords(Schema schema) {
        this.schema = schema;
        names = schema.names();
        attributes = new AttributesEncoder(schema);
    }

    /** A chunk that is new: its text is still to be embedded. */
    Incoming upsert(Incoming document, String chunk, ChunkList.Place place, String text) {
        Incoming record = record(document, chunk, Incoming.Kind.UPSERT);
        record.text = text;
        record.fields =
                RowFields.of(
                        record.fields.name(),
                        record.fields.check(),
                        document.fields.attributes(),
                        payload(document, place, text));
        return record;
    }

    /** A chunk whose text is unchanged: it may lie elsewhere, and attributes may differ. */
    Incoming moved(Incoming document, String chunk, ChunkList.Place place, String text) {
        attributes.clear();
        attributes.setAll(document.fields.attributes());
        short[] absent = new short[schema.size()];
        int count = 0;
        for (int column = 0; column < absent.length; column++) {
            if (!attributes.has(column)) {
                absent[count++] = (short) column;
            }
        }
        return changed(
                document, chunk, Arrays.copyOf(absent, count), payload(document, place, text));
    }

    /** A chunk of a document whose attributes an update changes. */
    Incoming updated(Incoming document, String chunk) {
        return changed(document, chunk, document.fields.unset(), null);
    }

    /** A chunk that is gone. */
    Incoming delete(Incoming document, String chunk) {
        return record(document, chunk, Incoming.Kind.DELETE);
    }

    private Incoming changed(Incoming document, String chunk, short[] unset, byte[] payload) {
        Incoming record = record(document, chunk, Incoming.Kind.UPDATE);
        record.fields =
                new RowFields(
                        record.fields.name(),
                        record.fields.check(),
                        document.fields.attributes(),
                        payload,
                        unset,
                        false,
                        false);
        return record;
    }

    private Incoming record(Incoming document, String chunk, Incoming.Kind kind) {
        String name = document.fields.name() + chunk;
        if (!names.hash(name)) {
            throw new IllegalStateException("The name of a chunk is too long: " + name);
        }
        Incoming record = new Incoming();
        record.kind = kind;
        record.id = names.id();
        record.fields = RowFields.named(name, names.check());
        record.document = document.id;
        record.intendedNanos = document.intendedNanos;
        record.measured = document.measured;
        return record;
    }

    private static byte[] payload(Incoming document, ChunkList.Place place, String text) {
        StringWriter out = new StringWriter(text.length() + 64);
        try (JsonGenerator json = JSON.createGenerator(out)) {
            json.writeStartObject();
            json.writeStringField("document", document.fields.name());
            json.writeNumberField("start", place.start());
            json.writeNumberField("end", place.end());
            json.writeStringField("text", text);
            json.writeEndObject();
        } catch (IOException e) {
            throw new IllegalStateException("Writing to memory cannot fail.", e);
        }
        return out.toString().getBytes(StandardCharsets.UTF_8);
    }
}
