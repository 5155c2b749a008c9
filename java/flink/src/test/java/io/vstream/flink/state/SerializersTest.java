package io.vstream.flink.state;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.VectorChange;
import io.vstream.flink.VectorQuery;
import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.handover.Step;
import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.QueryRecord;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.ingest.VectorRecord;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import io.vstream.flink.place.Write;
import io.vstream.flink.route.QueryCopy;
import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.route.SpreadGroup;
import io.vstream.flink.row.AttributesEncoder;
import io.vstream.flink.row.NameHash;
import io.vstream.flink.search.Neighbors;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import java.time.Instant;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class SerializersTest {

    private static final float[] VECTOR = {1.5f, -0f, Float.MIN_VALUE, 3e38f, 7};
    private static final Ticket TICKET = new Ticket(1L << 48 | 9, -5, 10, -1, 123_456_789, true);
    private static final Neighbors ROWS =
            new Neighbors(new long[] {-1, 2}, new long[] {3, 4}, new float[] {0.5f, 1});

    private static final RowFields CARRIED =
            RowFields.of("gr\u00f6\u00dfe", -9, new byte[] {4, 0, 4, 1}, new byte[0]);
    private static final RowFields CHANGE =
            new RowFields("", 0, new byte[] {4, 0, 4, 0}, null, new short[] {0, 3}, true, false);
    private static final Asked ASKED =
            new Asked(new byte[] {1, 2}, new short[] {0, 255}, true, true, 0.25f);
    private static final AnswerRow ANSWER_ROW =
            new AnswerRow(
                    "sku-1",
                    Map.of(
                            "colour",
                            "red",
                            "tags",
                            List.of("a", "b"),
                            "price",
                            9.5,
                            "stock",
                            3L,
                            "new",
                            false,
                            "since",
                            Instant.ofEpochMilli(-1)),
                    new byte[] {1, 2},
                    false);

    static Stream<Arguments> records() {
        Incoming incoming = new Incoming();
        incoming.kind = Incoming.Kind.QUERY_LINE;
        incoming.id = -2;
        incoming.vector = VECTOR;
        incoming.k = 7;
        incoming.effort = 3;
        incoming.intendedNanos = 11;
        incoming.measured = true;
        incoming.line = "{\"vector\":[" + "1,".repeat(50_000) + "1]} \u00e9\ud83d\ude00";
        VectorRecord upsert = new VectorRecord();
        upsert.upsert(-3, VECTOR);
        VectorRecord delete = new VectorRecord();
        delete.delete(4);
        Write write = new Write();
        write.id = -1;
        write.version = 2;
        write.code = -3;
        write.shard = 127;
        write.vector = VECTOR;
        Write erase = new Write();
        erase.delete = true;
        incoming.fields = CARRIED;
        incoming.newer = -4;
        incoming.filter = "{\"must\":[]}";
        incoming.with = new String[] {"price", "payload"};
        incoming.radius = 0.5f;
        incoming.problem = "gr\u00f6\u00dfe";
        VectorRecord carrying = new VectorRecord();
        carrying.upsert(-3, VECTOR);
        carrying.fields = CARRIED;
        carrying.newer = 9;
        VectorRecord update = new VectorRecord();
        update.update(7, CHANGE);
        VectorRecord named = new VectorRecord();
        named.delete(7);
        named.fields = RowFields.named("a", 3);
        Write carried = new Write();
        carried.id = 1;
        carried.vector = VECTOR;
        carried.fields = CARRIED;
        Write changed = new Write();
        changed.id = 2;
        changed.update = true;
        changed.fields = CHANGE;
        VectorRecord grouped = new VectorRecord();
        grouped.upsert(7, VECTOR);
        grouped.fields = CARRIED.in("ann");
        grouped.shard = 127;
        VectorRecord large = new VectorRecord();
        large.upsert(7, VECTOR);
        large.fields = CARRIED.in("ann");
        large.shard = 4_095;
        VectorRecord dropped = new VectorRecord();
        dropped.drop();
        dropped.fields = RowFields.NONE.in("gr\u00f6\u00dfe");
        dropped.shard = 0;
        Write drop = new Write();
        drop.delete = true;
        drop.drop = true;
        drop.fields = RowFields.NONE.in("ann");
        incoming.order = "{}";
        incoming.group = "gr\u00f6\u00dfe";
        long[] offsets = {7, -1, 1L << 40};
        incoming.reason = BadRecord.Reason.BAD_ID;
        incoming.partition = 3;
        incoming.offset = 1L << 33;
        incoming.offsets = offsets;
        VectorRecord covered = new VectorRecord();
        covered.offsets(5, offsets);
        Write passed = new Write();
        passed.id = 2;
        passed.offsets = offsets;
        Write distant = new Write();
        distant.id = 8;
        distant.shard = 300;
        distant.vector = VECTOR;
        Write ack = new Write();
        ack.id = 3;
        ack.shard = 64;
        ack.ack = new CommandAck(-1, 5, Step.SWITCH, 3, new MovedRanges(new byte[48]));
        return Stream.of(
                Arguments.of(Incoming.TYPE, incoming),
                Arguments.of(VectorRecord.TYPE, upsert),
                Arguments.of(VectorRecord.TYPE, delete),
                Arguments.of(Write.TYPE, write),
                Arguments.of(VectorRecord.TYPE, carrying),
                Arguments.of(VectorRecord.TYPE, update),
                Arguments.of(VectorRecord.TYPE, named),
                Arguments.of(VectorRecord.TYPE, grouped),
                Arguments.of(VectorRecord.TYPE, dropped),
                Arguments.of(VectorRecord.TYPE, large),
                Arguments.of(Write.TYPE, distant),
                Arguments.of(
                        PartialAnswer.TYPE,
                        new PartialAnswer(
                                TICKET,
                                4_095,
                                4_096,
                                ROWS,
                                new Frontier(9, offsets),
                                Neighbors.NONE)),
                Arguments.of(
                        QueryCopy.TYPE,
                        new QueryCopy(
                                TICKET,
                                4_095,
                                true,
                                4_096,
                                -1,
                                VECTOR,
                                ASKED,
                                null,
                                QueryCopy.WHOLE)),
                Arguments.of(SpreadGroup.TYPE, new SpreadGroup("ann", 7, ShardKeys.of(1_024), 64)),
                Arguments.of(Write.TYPE, drop),
                Arguments.of(
                        QueryRecord.TYPE, new QueryRecord(TICKET, VECTOR, ASKED.in("ann", "{}"))),
                Arguments.of(VectorChange.TYPE, VectorChange.dropGroup("ann").ifNewer(3)),
                Arguments.of(VectorChange.TYPE, VectorChange.update(3).in("ann")),
                Arguments.of(
                        VectorQuery.TYPE,
                        VectorQuery.of(3, VECTOR)
                                .within(1)
                                .in("ann")
                                .matching("a bill")
                                .rankedBy("$a", Map.of("a", 2.0))),
                Arguments.of(Write.TYPE, carried),
                Arguments.of(Write.TYPE, changed),
                Arguments.of(QueryRecord.TYPE, new QueryRecord(TICKET, VECTOR, ASKED)),
                Arguments.of(
                        QueryCopy.TYPE,
                        new QueryCopy(
                                TICKET, 99, true, 1, -1, VECTOR, ASKED, null, QueryCopy.WHOLE)),
                Arguments.of(
                        QueryCopy.TYPE,
                        new QueryCopy(TICKET, 99, true, 65, -1, VECTOR, ASKED, null, 64)),
                Arguments.of(SpreadGroup.TYPE, new SpreadGroup("ann", 7, ShardKeys.of(128), 8)),
                Arguments.of(
                        PartialAnswer.TYPE,
                        new PartialAnswer(
                                TICKET,
                                3,
                                4,
                                new Neighbors(
                                        new long[] {1, 2},
                                        new long[] {3, 4},
                                        new float[] {5, 6},
                                        new RowFields[] {CARRIED, RowFields.NONE}),
                                Frontier.NONE,
                                Neighbors.NONE)),
                Arguments.of(
                        PartialAnswer.TYPE,
                        new PartialAnswer(
                                TICKET,
                                3,
                                4,
                                new Neighbors(
                                        new long[] {1, 2},
                                        new long[] {3, 4},
                                        new float[] {5, 6},
                                        new double[] {5, Math.nextUp(6.0)},
                                        new RowFields[] {CARRIED, RowFields.NONE}),
                                Frontier.NONE,
                                Neighbors.NONE)),
                Arguments.of(
                        Answer.TYPE,
                        new Answer(
                                TICKET,
                                new long[] {-1, 2},
                                new float[] {0.5f, 1},
                                new AnswerRow[] {
                                    ANSWER_ROW, new AnswerRow("", Map.of(), null, true)
                                },
                                3,
                                true,
                                new Frontier(-9, offsets))),
                Arguments.of(
                        VectorChange.TYPE,
                        VectorChange.upsert("sku-1", VECTOR)
                                .withAll(ANSWER_ROW.attributes())
                                .withPayload(new byte[] {1})
                                .ifNewer(7)),
                Arguments.of(
                        VectorChange.TYPE,
                        VectorChange.update(3).with("price", null).withoutPayload()),
                Arguments.of(
                        VectorQuery.TYPE,
                        VectorQuery.of(3, VECTOR).where("{}").with("price").within(0.5f)),
                Arguments.of(VectorRecord.TYPE, covered),
                Arguments.of(Write.TYPE, erase),
                Arguments.of(Write.TYPE, passed),
                Arguments.of(Write.TYPE, ack),
                Arguments.of(QueryRecord.TYPE, new QueryRecord(TICKET, VECTOR)),
                Arguments.of(
                        QueryCopy.TYPE,
                        new QueryCopy(
                                TICKET.asAudit(),
                                99,
                                false,
                                128,
                                4095,
                                VECTOR,
                                Asked.NOTHING,
                                null,
                                QueryCopy.WHOLE)),
                Arguments.of(
                        QueryCopy.TYPE,
                        new QueryCopy(
                                new Ticket(0, 0, 1, 0, 0, false),
                                7,
                                false,
                                0,
                                -1,
                                new float[0],
                                Asked.NOTHING,
                                new CommandAck(9, 2, Step.ADOPT, 3, MovedRanges.NONE),
                                QueryCopy.WHOLE)),
                Arguments.of(
                        PartialAnswer.TYPE,
                        new PartialAnswer(
                                TICKET, 127, 128, ROWS, new Frontier(9, offsets), Neighbors.NONE)),
                Arguments.of(
                        Answer.TYPE,
                        new Answer(
                                TICKET,
                                new long[] {-1, 2},
                                new float[] {0.5f, 1},
                                3,
                                true,
                                new Frontier(-9, offsets))),
                Arguments.of(Command.TYPE, Command.template(3, new byte[] {1, 2})),
                Arguments.of(
                        Command.TYPE, new Command(-7, 3, Step.SETTLE, new byte[0], new byte[24])),
                Arguments.of(
                        BadRecord.TYPE, new BadRecord(BadRecord.Reason.BAD_K, "x".repeat(999))),
                Arguments.of(VectorSerializer.TYPE, VECTOR));
    }

    @ParameterizedTest
    @MethodSource("records")
    <T> void whatIsWrittenIsRead(RecordType<T> type, T record) throws IOException {
        TypeSerializer<T> serializer = type.createSerializer(new SerializerConfigImpl());
        DataOutputSerializer out = new DataOutputSerializer(16);
        serializer.serialize(record, out);
        serializer.serialize(serializer.copy(record), out);

        DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
        DataOutputSerializer again = new DataOutputSerializer(16);
        T first = serializer.deserialize(in);
        assertThat(first).usingRecursiveComparison().isEqualTo(record);
        again.write(out.getCopyOfBuffer(), 0, out.length() - in.available());
        serializer.copy(in, again);
        assertThat(in.available()).isZero();
        assertThat(again.getCopyOfBuffer()).isEqualTo(out.getCopyOfBuffer());
        assertThat(serializer.duplicate()).isEqualTo(serializer);
    }

    /**
     * What is too long is refused by whoever checks it, behind a shuffle as well: it comes through,
     * and is too long still.
     */
    @Test
    void whatIsTooLongIsTooLongBehindAShuffle() throws IOException {
        String text = "\u20ac".repeat(2 << 20);
        VectorChange change =
                VectorChange.upsert(text.substring(0, 70_000), VECTOR)
                        .with("text", text)
                        .with("tags", Collections.nCopies(100_000, "a"))
                        .withPayload(new byte[3 << 20])
                        .in(text.substring(0, 40_000));
        TypeSerializer<VectorChange> serializer =
                VectorChange.TYPE.createSerializer(new SerializerConfigImpl());
        DataOutputSerializer out = new DataOutputSerializer(16);
        serializer.serialize(change, out);
        DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
        VectorChange read = serializer.deserialize(in);
        assertThat(in.available()).isZero();
        assertThat(read).extracting("name").asString().hasSizeGreaterThan(NameHash.NAME_BYTES_MAX);
        assertThat(read).extracting("group").asString().hasSizeGreaterThan(NameHash.NAME_BYTES_MAX);
        assertThat(read)
                .extracting("payload", InstanceOfAssertFactories.BYTE_ARRAY)
                .hasSizeGreaterThan(1 << 20);
        assertThat(read)
                .extracting("attributes", InstanceOfAssertFactories.MAP)
                .satisfies(
                        values -> {
                            assertThat((String) values.get("text"))
                                    .hasSizeGreaterThan(AttributesEncoder.BYTES_MAX);
                            assertThat((List<?>) values.get("tags")).hasSize(1 << 16);
                        });
    }

    /** Windows, joins and asynchronous calls on answers keep them in the state of the program. */
    static Stream<Arguments> results() {
        return records()
                .filter(one -> one.get()[0] == Answer.TYPE || one.get()[0] == BadRecord.TYPE);
    }

    @ParameterizedTest
    @MethodSource("results")
    <T> void resultsCanBeInState(RecordType<T> type, T record) throws IOException {
        assertThat(TypeInformation.of(type.getTypeClass())).isEqualTo(type);
        TypeSerializer<T> serializer = type.createSerializer(new SerializerConfigImpl());
        DataOutputSerializer out = new DataOutputSerializer(16);
        TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
        serializer.serialize(record, out);

        DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
        TypeSerializerSnapshot<T> found =
                TypeSerializerSnapshot.readVersionedSnapshot(in, getClass().getClassLoader());
        T restored = found.restoreSerializer().deserialize(in);
        assertThat(restored).isEqualTo(record).hasSameHashCodeAs(record);
        assertThat(serializer.copy(restored)).isEqualTo(record);
        assertThat(
                        serializer
                                .snapshotConfiguration()
                                .resolveSchemaCompatibility(found)
                                .isCompatibleAsIs())
                .isTrue();
    }

    @Test
    void aLengthThatCannotBeIsRefused() throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(16);
        out.writeInt(-1);
        DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
        assertThatThrownBy(() -> new VectorSerializer().deserialize(in))
                .hasMessageContaining("-1 elements");
    }

    /** The bytes of an answer of layout 1, as releases before attributes wrote it. */
    @Test
    void anAnswerOfTheFirstLayoutIsRead() throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(64);
        TICKET.write(out);
        out.writeInt(1);
        out.writeLong(7);
        new FloatBlock().write(new float[] {0.5f}, out);
        out.writeShort(2);
        out.writeBoolean(true);
        Frontier.NONE.write(out);
        TypeSerializer<Answer> serializer =
                Answer.TYPE.createSerializer(new SerializerConfigImpl());
        TypeSerializerSnapshot<Answer> layout = serializer.snapshotConfiguration();
        layout.readSnapshot(1, new DataInputDeserializer(new byte[0]), null);
        Answer read = serializer.deserialize(new DataInputDeserializer(out.getCopyOfBuffer()));
        assertThat(read)
                .isEqualTo(
                        new Answer(
                                TICKET,
                                new long[] {7},
                                new float[] {0.5f},
                                2,
                                true,
                                Frontier.NONE));
        // And an answer that carries nothing still has these bytes.
        DataOutputSerializer again = new DataOutputSerializer(64);
        serializer.serialize(read, again);
        assertThat(again.getCopyOfBuffer()).isEqualTo(out.getCopyOfBuffer());
    }

    @Test
    void stateOfAnotherLayoutIsRefused() throws IOException {
        TypeSerializerSnapshot<float[]> layout = new VectorSerializer().snapshotConfiguration();
        DataOutputSerializer out = new DataOutputSerializer(16);
        TypeSerializerSnapshot.writeVersionedSnapshot(out, layout);
        TypeSerializerSnapshot<float[]> read =
                TypeSerializerSnapshot.readVersionedSnapshot(
                        new DataInputDeserializer(out.getCopyOfBuffer()),
                        getClass().getClassLoader());
        assertThat(layout.resolveSchemaCompatibility(read).isCompatibleAsIs()).isTrue();
        assertThat(read.restoreSerializer()).isEqualTo(new VectorSerializer());
        assertThatThrownBy(
                        () ->
                                layout.readSnapshot(
                                        2,
                                        new DataInputDeserializer(new byte[0]),
                                        getClass().getClassLoader()))
                .hasMessageContaining("layout 2");
    }
}
