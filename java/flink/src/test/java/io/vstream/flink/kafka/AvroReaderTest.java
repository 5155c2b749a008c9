package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Incoming;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecordBuilder;
import org.junit.jupiter.api.Test;

class AvroReaderTest {

    private static final Schema VECTOR =
            new Schema.Parser()
                    .parse(
                            """
                            {"type": "record", "name": "Row", "namespace": "shop", "fields": [
                              {"name": "title", "type": ["null", "string"], "default": null},
                              {"name": "vector", "type": {"type": "array", "items": "double"}},
                              {"name": "tags", "type": {"type": "map", "values": "string"}},
                              {"name": "id", "type": "int"},
                              {"name": "deleted", "type": ["null", "boolean"], "default": null}]}
                            """);
    private static final Schema QUERY =
            new Schema.Parser()
                    .parse(
                            """
                            {"type": "record", "name": "Q", "fields": [
                              {"name": "query_id", "type": "long"},
                              {"name": "vector", "type": {"type": "array", "items": "float"}},
                              {"name": "k", "type": ["int", "null"]},
                              {"name": "effort", "type": "long"}]}
                            """);

    private final Incoming record = new Incoming();

    @Test
    void knownFieldsAreReadAndOthersSkipped() throws IOException {
        AvroReader reader =
                new AvroReader(
                        VECTOR.toString(), null, false, 10, io.vstream.flink.row.Schema.PLAIN);
        assertThat(reader.read(row(7, null, 1, 2.5), record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
        assertThat(record.id).isEqualTo(7);
        assertThat(record.vector).containsExactly(1, 2.5f);
        assertThat(reader.read(row(8, true), record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(record.id).isEqualTo(8);
        assertThat(reader.read(row(9, false, 3), record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
    }

    @Test
    void queriesSayHowManyAndHowHard() throws IOException {
        AvroReader reader =
                new AvroReader(QUERY.toString(), null, true, 10, io.vstream.flink.row.Schema.PLAIN);
        assertThat(reader.read(query(-1, 3, -1), record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.QUERY);
        assertThat(record.id).isEqualTo(-1);
        assertThat(record.k).isEqualTo(3);
        assertThat(record.effort).isEqualTo(-1);
        assertThat(reader.read(query(4, null, 1L << 40), record)).isNull();
        assertThat(record.k).isEqualTo(10);
        // Decode refuses it, by the same rule for every source.
        assertThat(record.effort).isLessThan(-1);
    }

    @Test
    void everyCutAndEveryChangedByteIsReadOrRefused() throws IOException {
        AvroReader reader =
                new AvroReader(
                        VECTOR.toString(), null, false, 10, io.vstream.flink.row.Schema.PLAIN);
        byte[] whole = row(7, null, 1, 2.5, -3);
        for (int length = 0; length < whole.length; length++) {
            assertThat(reader.read(Arrays.copyOf(whole, length), record))
                    .as("the first %d bytes", length)
                    .isNotNull();
        }
        assertThat(reader.read(Arrays.copyOf(whole, whole.length + 1), record))
                .isEqualTo(Reason.MALFORMED_LINE);
        SplittableRandom random = new SplittableRandom(7);
        for (int round = 0; round < 20_000; round++) {
            byte[] changed = whole.clone();
            for (int i = random.nextInt(4); i >= 0; i--) {
                changed[random.nextInt(changed.length)] = (byte) random.nextInt();
            }
            // Whatever it says, it neither throws nor claims memory.
            reader.read(changed, record);
            assertThat(record.vector.length).isLessThan(changed.length);
        }
        assertThat(reader.read(whole, record)).isNull();
    }

    @Test
    void aVectorOfAnyLengthIsNotRead() throws IOException {
        AvroReader reader =
                new AvroReader(QUERY.toString(), null, true, 10, io.vstream.flink.row.Schema.PLAIN);
        // Query 0, then an array that claims 2^20 and one that claims 2^48 elements.
        byte[] large = {0, (byte) 0x80, (byte) 0x80, (byte) 0x80, 1};
        assertThat(reader.read(large, record)).isEqualTo(Reason.WRONG_DIMENSION);
        byte[] huge = {0, -128, -128, -128, -128, -128, -128, -128, 1};
        assertThat(reader.read(huge, record)).isNotNull();
        assertThat(reader.read(query(1, null, 0, new float[4_097]), record)).isNull();
        assertThat(reader.read(query(1, null, 0, new float[4_098]), record))
                .isEqualTo(Reason.WRONG_DIMENSION);
    }

    @Test
    void theRegistryIsAskedOncePerSchema() throws IOException {
        try (RegistryStub registry = new RegistryStub()) {
            int number = registry.add(VECTOR.toString());
            int other = registry.add("\"long\"");
            AvroReader reader =
                    new AvroReader(
                            null,
                            registry.address() + "/",
                            false,
                            10,
                            io.vstream.flink.row.Schema.PLAIN);
            for (int i = 0; i < 3; i++) {
                byte[] value = AvroRecords.framed(number, row(i, null, i));
                assertThat(reader.read(value, record)).isNull();
                assertThat(record.id).isEqualTo(i);
                byte[] none = AvroRecords.framed(99, row(i, null, i));
                assertThat(reader.read(none, record)).isEqualTo(Reason.MALFORMED_LINE);
                byte[] number2 = AvroRecords.framed(other, row(i, null, i));
                assertThat(reader.read(number2, record)).isEqualTo(Reason.MALFORMED_LINE);
            }
            assertThat(registry.requests())
                    .containsExactly(
                            "/schemas/ids/" + number, "/schemas/ids/99", "/schemas/ids/" + other);
            assertThat(reader.read(row(1, null, 1), record)).isEqualTo(Reason.MALFORMED_LINE);
            byte[] key = AvroRecords.framed(other, new byte[] {14});
            assertThat(reader.isAvro(key)).isTrue();
            assertThat(reader.id(key, record)).isNull();
            assertThat(record.id).isEqualTo(7);
        }
    }

    /**
     * A registry of several machines may say for a moment that a new schema is not there. Records
     * of it were refused until the job started again.
     */
    @Test
    void aSchemaThatWasMissingIsAskedForAgainAfterHalfAMinute() throws IOException {
        AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - 5);
        try (RegistryStub registry = new RegistryStub()) {
            int other = registry.add("\"long\"");
            AvroReader reader =
                    new AvroReader(
                            null,
                            registry.address(),
                            false,
                            10,
                            io.vstream.flink.row.Schema.PLAIN,
                            nanos::get);
            byte[] value = AvroRecords.framed(other + 1, row(7, null, 1));
            byte[] unusable = AvroRecords.framed(other, row(7, null, 1));
            assertThat(reader.read(value, record)).isEqualTo(Reason.MALFORMED_LINE);
            assertThat(reader.read(unusable, record)).isEqualTo(Reason.MALFORMED_LINE);
            assertThat(registry.add(VECTOR.toString())).isEqualTo(other + 1);
            nanos.addAndGet(TimeUnit.SECONDS.toNanos(29));
            assertThat(reader.read(value, record)).isEqualTo(Reason.MALFORMED_LINE);
            nanos.addAndGet(TimeUnit.SECONDS.toNanos(1));
            assertThat(reader.read(value, record)).isNull();
            assertThat(record.id).isEqualTo(7);
            nanos.addAndGet(TimeUnit.HOURS.toNanos(1));
            assertThat(reader.read(value, record)).isNull();
            // A number never gets another schema.
            assertThat(reader.read(unusable, record)).isEqualTo(Reason.MALFORMED_LINE);
            String missing = "/schemas/ids/" + (other + 1);
            assertThat(registry.requests())
                    .containsExactly(missing, "/schemas/ids/" + other, missing);
        }
    }

    @Test
    void aRegistryThatIsAwayFailsTheJobAndLosesNothing() throws IOException {
        String address;
        try (RegistryStub registry = new RegistryStub()) {
            address = registry.address();
        }
        AvroReader reader =
                new AvroReader(null, address, false, 10, io.vstream.flink.row.Schema.PLAIN);
        assertThatThrownBy(() -> reader.read(AvroRecords.framed(1, row(1, null, 1)), record))
                .isInstanceOf(UncheckedIOException.class)
                .hasMessageContaining("The schema registry at " + address + " cannot be used");
    }

    @Test
    void schemasThatCannotBeReadAreRefusedInSentences() {
        assertThatThrownBy(() -> AvroReader.check("{}", false, io.vstream.flink.row.Schema.PLAIN))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("schema: this is not a schema of Avro");
        assertThatThrownBy(
                        () ->
                                AvroReader.check(
                                        "\"long\"", false, io.vstream.flink.row.Schema.PLAIN))
                .hasMessage(
                        "The Avro schema is not a record with the fields id and vector; add them.");
        String text = VECTOR.toString().replace("\"double\"", "\"string\"");
        assertThatThrownBy(() -> AvroReader.check(text, false, io.vstream.flink.row.Schema.PLAIN))
                .hasMessageStartingWith("The Avro field vector is");
    }

    private static byte[] row(int id, Boolean deleted, double... vector) throws IOException {
        List<Double> numbers = Arrays.stream(vector).boxed().toList();
        return AvroRecords.bytes(
                new GenericRecordBuilder(VECTOR)
                        .set("title", "a title")
                        .set("vector", numbers)
                        .set("tags", Map.of("colour", "red"))
                        .set("id", id)
                        .set("deleted", deleted)
                        .build());
    }

    private static byte[] query(long id, Integer k, long effort, float... vector)
            throws IOException {
        List<Float> numbers = new ArrayList<>();
        for (float number : vector) {
            numbers.add(number);
        }
        return AvroRecords.bytes(
                new GenericRecordBuilder(QUERY)
                        .set("query_id", id)
                        .set("vector", numbers)
                        .set("k", k)
                        .set("effort", effort)
                        .build());
    }
}
