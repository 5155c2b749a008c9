package io.vstream.flink.text;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.row.AttributeKind;
import io.vstream.flink.row.FieldsBuilder;
import io.vstream.flink.row.Schema;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class DocumentOperatorTest {

    static final String MODEL = "../../crates/embed/tests/fixtures/words";

    static final TextSettings SETTINGS = new TextSettings("text", 64, 0, MODEL, "", 256, 1, 1, 3);

    static final Schema SCHEMA =
            new Schema(
                    true,
                    List.of(
                            new Schema.Attribute("year", AttributeKind.I64),
                            new Schema.Attribute("party", AttributeKind.KEYWORD)),
                    1 << 20,
                    42);

    private static final String PEACE = "Peace prevails with every nation. Our harvest was good.";
    private static final String TRADE = "Railroads cross the plains; telegraphs cross the sea.";

    private KeyedOneInputStreamOperatorTestHarness<Long, Incoming, Incoming> harness;
    private final Set<String> rows = new HashSet<>();

    @BeforeEach
    void open() throws Exception {
        open(null);
    }

    private void open(OperatorSubtaskState state) throws Exception {
        harness = harness(new DocumentOperator(SETTINGS, SCHEMA));
        if (state != null) {
            harness.initializeState(state);
        }
        harness.open();
    }

    private static KeyedOneInputStreamOperatorTestHarness<Long, Incoming, Incoming> harness(
            OneInputStreamOperator<Incoming, Incoming> operator) throws Exception {
        KeyedOneInputStreamOperatorTestHarness<Long, Incoming, Incoming> harness =
                new KeyedOneInputStreamOperatorTestHarness<>(operator, one -> one.id, Types.LONG);
        harness.setup(Incoming.TYPE.createSerializer(null));
        return harness;
    }

    @AfterEach
    void close() throws Exception {
        harness.close();
    }

    @Test
    void onlyNewChunksAreEmbeddedAlsoAfterARestore() throws Exception {
        assertThat(kinds(upsert("a", PEACE + "\n\n" + TRADE))).containsExactly("+", "+");
        assertThat(kinds(upsert("b", TRADE))).containsExactly("+");
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
        List<Incoming> changed = upsert("a", TRADE.replace("sea", "ocean") + "\n\n" + PEACE);
        assertThat(kinds(changed)).containsExactly("+", "~", "-");
        assertThat(payload(changed.get(1)))
                .isEqualTo(
                        "{\"document\":\"a\",\"start\":57,\"end\":112,\"text\":\"" + PEACE + "\"}");
        assertThat(changed.get(1).vector).isEmpty();
        assertThat(kinds(delete("a"))).containsExactly("-", "-");
        assertThat(kinds(delete("a"))).isEmpty();
        assertThat(rows).hasSize(1).allMatch(name -> name.startsWith("b#"));
    }

    @Test
    void chunksThatRepeatAreKeptApart() throws Exception {
        String twice = PEACE + "\n\n" + PEACE;
        assertThat(kinds(upsert("a", twice))).containsExactly("+", "+");
        assertThat(rows).hasSize(2);
        assertThat(kinds(upsert("a", PEACE))).containsExactly("~", "-");
        assertThat(kinds(upsert("a", " "))).containsExactly("-");
    }

    @Test
    void attributesOfADocumentAreThoseOfItsChunks() throws Exception {
        Incoming first = document(Incoming.Kind.UPSERT, "a", PEACE, Map.of("year", 1861L));
        assertThat(send(first).get(0).fields.attributes()).isEqualTo(first.fields.attributes());
        Incoming later = document(Incoming.Kind.UPSERT, "a", PEACE, Map.of("party", "whig"));
        Incoming moved = send(later).get(0);
        assertThat(moved.fields.unset()).containsExactly((short) 0);
        Incoming update = document(Incoming.Kind.UPDATE, "a", null, Map.of("year", 1862L));
        Incoming updated = send(update).get(0);
        assertThat(updated.kind).isEqualTo(Incoming.Kind.UPDATE);
        assertThat(updated.fields.payload()).isNull();
        assertThat(updated.fields.name()).isEqualTo(moved.fields.name());
    }

    @Test
    void anOlderRecordChangesNothingAlsoAfterADelete() throws Exception {
        Incoming five = document(Incoming.Kind.UPSERT, "a", PEACE, Map.of());
        five.newer = 5;
        assertThat(send(five)).hasSize(1);
        Incoming gone = document(Incoming.Kind.DELETE, "a", null, Map.of());
        gone.newer = 7;
        assertThat(send(gone)).hasSize(1);
        Incoming six = document(Incoming.Kind.UPSERT, "a", PEACE, Map.of());
        six.newer = 6;
        assertThat(send(six)).isEmpty();
        six.newer = 8;
        assertThat(send(six)).hasSize(1);
    }

    /** The number of a deleted document stayed for ever; that of a row is forgotten. */
    @Test
    void theNumberOfADeletedDocumentIsForgottenAfterAWeek() throws Exception {
        harness.setStateTtlProcessingTime(0);
        send(ordered(Incoming.Kind.UPSERT, 5));
        assertThat(harness.numKeyedStateEntries()).isEqualTo(2);
        send(ordered(Incoming.Kind.DELETE, 7));
        assertThat(harness.numKeyedStateEntries()).isEqualTo(1);
        restore();
        harness.setStateTtlProcessingTime(Duration.ofDays(7).toMillis() - 1);
        assertThat(send(ordered(Incoming.Kind.UPSERT, 6))).isEmpty();
        harness.setStateTtlProcessingTime(Duration.ofDays(7).toMillis());
        assertThat(send(ordered(Incoming.Kind.UPSERT, 6))).hasSize(1);
        // A record without a number changes the document, and not what is remembered.
        assertThat(kinds(delete("a"))).containsExactly("-");
        assertThat(send(ordered(Incoming.Kind.UPSERT, 6))).isEmpty();
        assertThat(send(ordered(Incoming.Kind.UPSERT, 7))).hasSize(1);
    }

    /** State in which the number stands beside the chunks, as it did at first. */
    @Test
    void aNumberBesideTheChunksIsReadAndMoves() throws Exception {
        send(document(Incoming.Kind.UPSERT, "a", PEACE, Map.of()));
        String chunk = rows.iterator().next().substring(1);
        ChunkList old = new ChunkList(7, Map.of(chunk, new ChunkList.Place(0, PEACE.length())));
        for (ChunkList list : List.of(old, new ChunkList(7, Map.of()))) {
            harness.close();
            try (var before = harness(new OldDocuments(list))) {
                before.open();
                before.processElement(ordered(Incoming.Kind.UPSERT, 7), 0);
                open(before.snapshot(1, 1));
            }
            harness.setStateTtlProcessingTime(0);
            rows.clear();
            list.chunks().keySet().forEach(name -> rows.add("a" + name));
            assertThat(send(ordered(Incoming.Kind.DELETE, 7))).isEmpty();
            assertThat(send(document(Incoming.Kind.DELETE, "a", null, Map.of())))
                    .hasSize(list.chunks().size());
            assertThat(harness.numKeyedStateEntries()).isEqualTo(1);
            assertThat(send(ordered(Incoming.Kind.UPSERT, 7))).isEmpty();
            harness.setStateTtlProcessingTime(Duration.ofDays(7).toMillis());
            assertThat(send(ordered(Incoming.Kind.UPSERT, 7))).hasSize(1);
        }
    }

    /** Keeps one list for every document, as the operator did. */
    private static final class OldDocuments extends AbstractStreamOperator<Incoming>
            implements OneInputStreamOperator<Incoming, Incoming> {
        private static final long serialVersionUID = 1L;
        private final transient ChunkList list;
        private transient ValueState<ChunkList> state;

        OldDocuments(ChunkList list) {
            this.list = list;
        }

        @Override
        public void initializeState(StateInitializationContext context) throws Exception {
            super.initializeState(context);
            state =
                    context.getKeyedStateStore()
                            .getState(new ValueStateDescriptor<>("chunks", ChunkList.TYPE));
        }

        @Override
        public void processElement(StreamRecord<Incoming> element) throws Exception {
            state.update(list);
        }
    }

    private static Incoming ordered(Incoming.Kind kind, long number) {
        String text = kind == Incoming.Kind.DELETE ? null : PEACE;
        Incoming record = document(kind, "a", text, Map.of());
        record.newer = number;
        return record;
    }

    private void restore() throws Exception {
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
    }

    private List<Incoming> upsert(String name, String text) throws Exception {
        return send(document(Incoming.Kind.UPSERT, name, text, Map.of()));
    }

    private List<Incoming> delete(String name) throws Exception {
        return send(document(Incoming.Kind.DELETE, name, null, Map.of()));
    }

    private List<Incoming> send(Incoming record) throws Exception {
        int before = harness.extractOutputValues().size();
        harness.processElement(record, 0);
        List<Incoming> all = harness.extractOutputValues();
        List<Incoming> sent = new ArrayList<>(all.subList(before, all.size()));
        for (Incoming one : sent) {
            String name = one.fields.name();
            boolean there = rows.contains(name);
            assertThat(there).isEqualTo(one.kind != Incoming.Kind.UPSERT);
            assertThat(one.text != null).isEqualTo(one.kind == Incoming.Kind.UPSERT);
            assertThat(one.document).isEqualTo(record.id);
            if (one.kind == Incoming.Kind.UPSERT) {
                rows.add(name);
            } else if (one.kind == Incoming.Kind.DELETE) {
                rows.remove(name);
            }
        }
        return sent;
    }

    static Incoming document(
            Incoming.Kind kind, String name, String text, Map<String, Object> attributes) {
        FieldsBuilder fields = new FieldsBuilder(SCHEMA);
        assertThat(fields.name(name)).isNull();
        assertThat(fields.setAll(attributes)).isNull();
        Incoming record = new Incoming();
        record.kind = kind;
        record.id = fields.id();
        record.text = text;
        record.fields = kind == Incoming.Kind.UPDATE ? fields.change() : fields.row();
        return record;
    }

    private static List<String> kinds(List<Incoming> sent) {
        return sent.stream()
                .map(
                        one ->
                                switch (one.kind) {
                                    case UPSERT -> "+";
                                    case UPDATE -> "~";
                                    case DELETE -> "-";
                                    default -> "?";
                                })
                .toList();
    }

    private static String payload(Incoming record) {
        return new String(record.fields.payload(), StandardCharsets.UTF_8);
    }
}
