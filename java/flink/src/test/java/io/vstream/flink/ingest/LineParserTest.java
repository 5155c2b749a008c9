package io.vstream.flink.ingest;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord.Reason;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LineParserTest {

    private final LineParser parser = new LineParser(10);

    @Test
    void readsVectorRecords() {
        Incoming record = line("{\"id\":18446744073709551615,\"vector\":[1,-2.5,3e1],\"x\":[{}]}");
        assertThat(parser.parse(record)).isNull();
        assertThat(record.kind).isEqualTo(Incoming.Kind.UPSERT);
        assertThat(record.id).isEqualTo(-1L);
        assertThat(record.vector).containsExactly(1f, -2.5f, 30f);

        Incoming delete = line("{\"op\":\"delete\",\"id\":7}");
        assertThat(parser.parse(delete)).isNull();
        assertThat(delete.kind).isEqualTo(Incoming.Kind.DELETE);
        assertThat(delete.id).isEqualTo(7);
    }

    @Test
    void numbersAreReadToTheLastBit() {
        SplittableRandom random = new SplittableRandom(11);
        for (int round = 0; round < 100_000; round++) {
            float number = Float.intBitsToFloat(random.nextInt());
            if (Float.isFinite(number)) {
                Incoming record = line("{\"id\":1,\"vector\":[" + number + "]}");
                assertThat(parser.parse(record)).isNull();
                assertThat(record.vector[0]).isEqualTo(number);
            }
        }
    }

    @Test
    void readsQueriesAndFillsDefaults() {
        Incoming query = query("{\"query_id\":3,\"vector\":[1]}");
        assertThat(parser.parse(query)).isNull();
        assertThat(query.kind).isEqualTo(Incoming.Kind.QUERY);
        assertThat(query.k).isEqualTo(10);
        assertThat(query.effort).isZero();

        Incoming exact = query("{\"query_id\":3,\"vector\":[1],\"k\":5,\"effort\":\"exact\"}");
        assertThat(parser.parse(exact)).isNull();
        assertThat(exact.k).isEqualTo(5);
        assertThat(exact.effort).isEqualTo(-1);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "not json|MALFORMED_LINE",
                "[1]|MALFORMED_LINE",
                "{\"id\":1}|MALFORMED_LINE",
                "{\"id\":1,\"vector\":[1,2|MALFORMED_LINE",
                "{\"id\":1,\"vector\":[1]} trailing|MALFORMED_LINE",
                "{\"id\":1,\"vector\":\"text\"}|MALFORMED_LINE",
                "{\"id\":1,\"vector\":[1,\"2\"]}|MALFORMED_LINE",
                "{\"id\":1,\"id\":2,\"vector\":[1]}|MALFORMED_LINE",
                "{\"id\":1,\"op\":\"patch\",\"vector\":[1]}|MALFORMED_LINE",
                "{\"vector\":[1]}|MALFORMED_LINE",
                "{\"id\":-1,\"vector\":[1]}|BAD_ID",
                "{\"id\":1.5,\"vector\":[1]}|BAD_ID",
                "{\"id\":\"1\",\"vector\":[1]}|BAD_ID",
                "{\"id\":18446744073709551616,\"vector\":[1]}|BAD_ID",
            })
    void refusesVectorLines(String line, Reason reason) {
        assertThat(parser.parse(line(line))).isEqualTo(reason);
    }

    @Test
    void refusesQueryLines() {
        assertThat(parser.parse(query("{\"query_id\":1}"))).isEqualTo(Reason.MALFORMED_LINE);
        assertThat(parser.parse(query("{\"query_id\":1,\"vector\":[1],\"effort\":\"most\"}")))
                .isEqualTo(Reason.BAD_EFFORT);
        Incoming fraction = query("{\"query_id\":1,\"vector\":[1],\"k\":1.5}");
        assertThat(parser.parse(fraction)).isNull();
        assertThat(VectorRules.refuseQuery(fraction.k, 0)).isEqualTo(Reason.BAD_K);
    }

    @Test
    void readsNumbersThatAreNotFiniteSoThatTheyAreRefusedForIt() {
        Incoming record = line("{\"id\":1,\"vector\":[NaN,Infinity,-Infinity,1e39]}");
        assertThat(parser.parse(record)).isNull();
        assertThat(new VectorRules(4, false, Element.F32).refuseStored(record.vector))
                .isEqualTo(Reason.NOT_FINITE);
    }

    private static Incoming line(String text) {
        Incoming record = new Incoming();
        record.kind = Incoming.Kind.VECTOR_LINE;
        record.line = text;
        return record;
    }

    private static Incoming query(String text) {
        Incoming record = line(text);
        record.kind = Incoming.Kind.QUERY_LINE;
        return record;
    }
}
