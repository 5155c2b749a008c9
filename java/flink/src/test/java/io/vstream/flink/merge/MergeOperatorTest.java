package io.vstream.flink.merge;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.vstream.flink.control.CoordinatedEnvironment;
import io.vstream.flink.control.MergedAudits;
import io.vstream.flink.fault.Fault;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.row.AttributesEncoder;
import io.vstream.flink.row.Shop;
import io.vstream.flink.search.Neighbors;
import io.vstream.flink.search.PartialAnswer;
import io.vstream.nativecore.RowFields;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class MergeOperatorTest {

    private static final long DEADLINE = 1_000;

    private final List<CoordinationRequest> told = new ArrayList<>();
    private KeyedOneInputStreamOperatorTestHarness<Long, PartialAnswer, Answer> harness;
    private long audits;

    @BeforeEach
    void open() throws Exception {
        open(null);
    }

    private void open(OperatorSubtaskState state) throws Exception {
        harness =
                new KeyedOneInputStreamOperatorTestHarness<>(
                        new MergeOperator(
                                DEADLINE, Shop.NUMBERS, "search", EnumSet.noneOf(Fault.class)),
                        part -> part.ticket().number(),
                        Types.LONG,
                        new CoordinatedEnvironment(this::hear));
        harness.setup(Answer.TYPE.createSerializer(null));
        if (state != null) {
            harness.initializeState(state);
        }
        harness.open();
    }

    @AfterEach
    void close() throws Exception {
        harness.close();
    }

    @Test
    void waitsForEveryPartition() throws Exception {
        part(1, 0, 3, row(10, 1, 0.3f));
        part(1, 2, 3, row(11, 1, 0.1f));
        assertThat(answers()).isEmpty();
        part(1, 1, 3, row(12, 1, 0.2f));
        Answer answer = only();
        assertThat(answer.ids()).containsExactly(11, 12, 10);
        assertThat(answer.distances()).containsExactly(0.1f, 0.2f, 0.3f);
        assertThat(answer.fanOut()).isEqualTo(3);
        assertThat(answer.partial()).isFalse();
        assertThat(harness.numKeyedStateEntries()).isZero();
    }

    @Test
    void answersOnePartitionAtOnceAndLeavesNoState() throws Exception {
        part(1, 5, 1, row(10, 1, 0.3f));
        assertThat(only().ids()).containsExactly(10);
        assertThat(harness.numKeyedStateEntries()).isZero();
    }

    @Test
    void keepsOneRowPerIdAndKRows() throws Exception {
        part(1, 0, 2, row(10, 1, 0.1f), row(11, 1, 0.2f), row(12, 1, 0.3f));
        part(1, 1, 2, row(13, 1, 0.25f), row(14, 1, 0.28f), row(10, 2, 0.9f));
        assertThat(only().ids()).containsExactly(11, 13, 14);
    }

    /** A row that two partitions have carries what its newest version carries. */
    @Test
    void rowsKeepWhatTheirNewestVersionCarries() throws Exception {
        Neighbors old =
                new Neighbors(
                        new long[] {10, 11},
                        new long[] {1, 1},
                        new float[] {0.1f, 0.2f},
                        new RowFields[] {carrying("a", 1), carrying("b", 2)});
        Neighbors next =
                new Neighbors(
                        new long[] {10},
                        new long[] {2},
                        new float[] {0.3f},
                        new RowFields[] {carrying("a", 3)});
        for (Neighbors rows : List.of(old, next)) {
            harness.processElement(
                    new StreamRecord<>(
                            new PartialAnswer(
                                    new Ticket(1, 77, 3, 0, 0, true),
                                    rows == old ? 0 : 1,
                                    2,
                                    rows,
                                    Frontier.NONE,
                                    Neighbors.NONE)));
        }
        Answer answer = only();
        assertThat(answer.ids()).containsExactly(11, 10);
        assertThat(answer.rows())
                .containsExactly(
                        new AnswerRow("b", Map.of("price", 2.0), null, false),
                        new AnswerRow("a", Map.of("price", 3.0), null, false));
    }

    private static RowFields carrying(String name, double price) {
        AttributesEncoder encoder = new AttributesEncoder(Shop.NUMBERS);
        encoder.set(Shop.NUMBERS.column("price"), price);
        return RowFields.of(name, 1, encoder.build(), null);
    }

    @Test
    void queriesWithTheSameIdAreAnsweredOneByOne() throws Exception {
        for (long number = 1; number <= 3; number++) {
            part(number, 0, 2, row(10 * number, 1, 0.1f));
        }
        for (long number = 3; number >= 1; number--) {
            part(number, 1, 2, row(10 * number + 1, 1, 0.2f));
        }
        assertThat(answers()).hasSize(3).allMatch(answer -> answer.ticket().queryId() == 77);
        assertThat(answers().get(0).ids()).containsExactly(30, 31);
    }

    @Test
    void answersInPartAtTheDeadlineAndNeverAgain() throws Exception {
        harness.setProcessingTime(100);
        part(1, 0, 3, row(10, 1, 0.3f));
        tickUpTo(100 + DEADLINE - MergeOperator.TICK_MILLIS);
        assertThat(answers()).isEmpty();
        tickUpTo(100 + DEADLINE + MergeOperator.TICK_MILLIS);
        assertThat(only().partial()).isTrue();
        assertThat(only().ids()).containsExactly(10);
        // Stragglers: the number is remembered until the last one is in, however late.
        part(1, 1, 3, row(11, 1, 0.1f));
        tickUpTo(5 * MergeOperator.KEEP_MILLIS);
        assertThat(remembered()).isEqualTo(1);
        part(1, 2, 3, row(12, 1, 0.1f));
        assertThat(remembered()).isZero();
        assertThat(answers()).hasSize(1);
    }

    @Test
    void forgetsARestoredQueryWhoseStragglersNeverCome() throws Exception {
        part(1, 0, 2, row(10, 1, 0.3f));
        assertThat(remembered()).isEqualTo(1);
        OperatorSubtaskState state = harness.snapshot(2, 2);
        harness.close();
        open(state);
        tickUpTo(DEADLINE + 2 * MergeOperator.TICK_MILLIS);
        assertThat(only().partial()).isTrue();
        assertThat(remembered()).isEqualTo(1);
        tickUpTo(DEADLINE + MergeOperator.KEEP_MILLIS + 3 * MergeOperator.TICK_MILLIS);
        assertThat(remembered()).isZero();
        assertThat(answers()).hasSize(1);
    }

    @Test
    void manyQueriesWaitAsLongEach() throws Exception {
        long now = 10_000_000;
        harness.setProcessingTime(now);
        for (long number = 0; number < 2_000; number++) {
            part(number, 0, 3, row(10, 1, 0.3f));
            part(number, 1, 3, row(11, 1, 0.2f));
        }
        tickUpTo(now + DEADLINE - MergeOperator.TICK_MILLIS);
        assertThat(answers()).isEmpty();
        for (long number = 0; number < 1_000; number++) {
            part(number, 2, 3, row(12, 1, 0.1f));
        }
        assertThat(answers()).hasSize(1_000).noneMatch(Answer::partial);
        tickUpTo(now + DEADLINE + 2 * MergeOperator.TICK_MILLIS);
        assertThat(answers()).hasSize(2_000);
        assertThat(answers().subList(1_000, 2_000)).allMatch(Answer::partial);
        for (long number = 1_000; number < 2_000; number++) {
            part(number, 2, 3, row(12, 1, 0.1f));
        }
        assertThat(answers()).hasSize(2_000);
        assertThat(remembered()).isZero();
    }

    @Test
    void aClockThatIsSetForwardEndsNoDeadline() throws Exception {
        part(1, 0, 2, row(10, 1, 0.3f));
        harness.setProcessingTime(3_600_000);
        assertThat(answers()).isEmpty();
        part(1, 1, 2, row(11, 1, 0.1f));
        assertThat(only().partial()).isFalse();
    }

    @Test
    void anAnswerWithoutAPartitionThatHadNoTimeIsPartial() throws Exception {
        part(1, 0, 2, row(10, 1, 0.3f));
        harness.processElement(new StreamRecord<>(shed(1, 1, 2)));
        assertThat(only().partial()).isTrue();
        assertThat(only().ids()).containsExactly(10);
        harness.processElement(new StreamRecord<>(shed(2, 0, 1)));
        assertThat(answers().get(1).partial()).isTrue();
        // Across a restart, too.
        harness.processElement(new StreamRecord<>(shed(3, 0, 2)));
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
        part(3, 1, 2, row(11, 1, 0.3f));
        assertThat(only().partial()).isTrue();
    }

    private static PartialAnswer shed(long number, int partition, int expected) {
        return new PartialAnswer(
                new Ticket(number, 77, 3, 0, 0, true),
                partition,
                expected,
                Neighbors.NONE,
                Frontier.NONE,
                Neighbors.NONE,
                true);
    }

    @Test
    void aPartitionCountsOnce() throws Exception {
        part(1, 0, 2, row(10, 1, 0.3f));
        part(1, 0, 2, row(10, 1, 0.3f));
        assertThat(answers()).isEmpty();
        part(1, 1, 2, row(11, 1, 0.3f));
        assertThat(only().ids()).containsExactly(10, 11);
    }

    @Test
    void hundredsOfPartitionsAnswerBeforeAndAfterARestore() throws Exception {
        int partitions = 300;
        for (int partition = 0; partition < 200; partition++) {
            part(1, partition, partitions, row(1_000 + partition, 1, partition));
        }
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
        // One that answered before, and whose bit is beyond the first 128.
        part(1, 199, partitions, row(9, 1, 0));
        for (int partition = partitions - 1; partition >= 200; partition--) {
            assertThat(answers()).isEmpty();
            part(1, partition, partitions, row(2_000 + partition, 1, 0.5f));
        }
        assertThat(only().ids()).containsExactly(1_000, 2_200, 2_201);
        assertThat(only().fanOut()).isEqualTo(partitions);
        assertThat(only().partial()).isFalse();
    }

    @Test
    void anAnswerHasBehindItWhatAllItsPartitionsHad() throws Exception {
        part(1, 0, 2, row(10, 1, 0.3f));
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
        part(1, 1, 2, row(11, 1, 0.1f));
        assertThat(only().frontier()).isEqualTo(new Frontier(100, new long[] {49, 7}));
    }

    @Test
    void goesOnAfterARestore() throws Exception {
        part(1, 0, 2, row(10, 1, 0.3f));
        part(2, 0, 2, row(20, 1, 0.3f));
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
        part(1, 1, 2, row(11, 1, 0.1f));
        assertThat(only().ids()).containsExactly(11, 10);
        tickUpTo(DEADLINE + 2 * MergeOperator.TICK_MILLIS);
        assertThat(answers()).hasSize(2);
        assertThat(answers().get(1).partial()).isTrue();
        assertThat(answers().get(1).ids()).containsExactly(20);
    }

    @Test
    void anAuditMeasuresRecallAndIsNotAnAnswer() throws Exception {
        Ticket audit = new Ticket(1, 77, 3, 0, 0, true).asAudit();
        Neighbors exact = rows(row(1, 1, 0.1f), row(2, 1, 0.2f), row(3, 1, 0.3f));
        Neighbors found = rows(row(1, 1, 0.1f), row(9, 1, 0.3f), row(8, 1, 0.7f));
        harness.processElement(
                new StreamRecord<>(new PartialAnswer(audit, 0, 2, found, Frontier.NONE, exact)));
        harness.processElement(
                new StreamRecord<>(
                        new PartialAnswer(
                                audit,
                                1,
                                2,
                                Neighbors.NONE,
                                Frontier.NONE,
                                rows(row(4, 1, 0.9f)))));
        assertThat(answers()).isEmpty();
        // Two of three: row 9 is as near as row 3, row 8 is not.
        long[] share = totals();
        assertThat(share[0]).isEqualTo(1);
        assertThat(share[1]).isEqualTo(666_667);
    }

    @Test
    void partitionsHearWhatAuditsHaveFoundOncePerSecond() throws Exception {
        audit(0);
        audit(7);
        audit(0);
        assertThat(told).isEmpty();
        tickUpTo(1_000);
        // An effort that a caller chose says nothing of the automatic one.
        assertThat(told).hasSize(1);
        MergedAudits found = (MergedAudits) told.get(0);
        assertThat(found.audits()).isEqualTo(2);
        assertThat(found.lost()).isCloseTo(2.0 / 3, within(1e-9));
        assertThat(found.missed()).isCloseTo(2.0 / 3, within(1e-9));
        tickUpTo(5_000);
        assertThat(told).hasSize(1);
    }

    /** Of three neighbours one was found, one missed, and one lies where nobody asked. */
    private void audit(int effort) throws Exception {
        Ticket audit = new Ticket(++audits, 77, 3, effort, 0, false).asAudit();
        Neighbors exact = rows(row(1, 1, 0.1f), row(2, 1, 0.2f), row(3, 1, 0.4f));
        Neighbors found = rows(row(1, 1, 0.1f), row(8, 1, 0.7f));
        harness.processElement(
                new StreamRecord<>(new PartialAnswer(audit, 0, 2, found, Frontier.NONE, exact)));
        harness.processElement(
                new StreamRecord<>(
                        new PartialAnswer(
                                audit,
                                1,
                                2,
                                Neighbors.NONE,
                                Frontier.NONE,
                                rows(row(4, 1, 0.3f)))));
    }

    /** Numbers that a checkpoint would hold. */
    private int remembered() throws Exception {
        harness.snapshot(1, 1);
        return harness.numKeyedStateEntries();
    }

    private long[] totals() throws Exception {
        OperatorSubtaskState state = harness.snapshot(1, 1);
        harness.close();
        open(state);
        var merge = (MergeOperator) harness.getOperator();
        return merge.totals();
    }

    /** Loses every word but the first, which changes nothing here. */
    private CompletableFuture<CoordinationResponse> hear(CoordinationRequest word) {
        told.add(word);
        return told.size() == 1
                ? CompletableFuture.completedFuture(null)
                : CompletableFuture.failedFuture(new TimeoutException("too busy"));
    }

    private void tickUpTo(long millis) throws Exception {
        while (harness.getProcessingTime() < millis) {
            harness.setProcessingTime(
                    Math.min(millis, harness.getProcessingTime() + MergeOperator.TICK_MILLIS));
        }
    }

    private void part(long number, int partition, int expected, Object[]... rows) throws Exception {
        harness.processElement(
                new StreamRecord<>(
                        new PartialAnswer(
                                new Ticket(number, 77, 3, 0, 0, true),
                                partition,
                                expected,
                                rows(rows),
                                new Frontier(100 + partition, new long[] {50 - partition, 7}),
                                Neighbors.NONE)));
    }

    private static Object[] row(long id, long version, float distance) {
        return new Object[] {id, version, distance};
    }

    private static Neighbors rows(Object[]... rows) {
        Neighbors neighbors =
                new Neighbors(new long[rows.length], new long[rows.length], new float[rows.length]);
        for (int i = 0; i < rows.length; i++) {
            neighbors.ids()[i] = (long) rows[i][0];
            neighbors.versions()[i] = (long) rows[i][1];
            neighbors.distances()[i] = (float) rows[i][2];
        }
        return neighbors;
    }

    private List<Answer> answers() {
        return harness.extractOutputValues();
    }

    private Answer only() {
        assertThat(answers()).hasSize(1);
        return answers().get(0);
    }
}
