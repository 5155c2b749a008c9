package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the answers must be: every live row in a map, and every distance computed. */
final class Oracle {

    /** Share of the nearest rows that approximate answers are steered to. */
    static final double TARGET = 0.9;

    /** How far below it they may be. */
    static final double SLACK = 0.02;

    private static final double TOLERANCE = 1e-4;

    private final WriteScript script;
    private final Map<Long, float[]> live = new HashMap<>();

    Oracle(WriteScript script) {
        this.script = script;
        Incoming record = new Incoming();
        for (int i = 0; i < script.writes(); i++) {
            script.fill(i, record);
            if (record.kind == Incoming.Kind.DELETE) {
                live.remove(record.id);
            } else {
                live.put(record.id, record.vector);
            }
        }
    }

    /**
     * What is wrong with the answers and the number of indexed rows; empty if nothing is.
     *
     * @param indexedRows of all partitions
     * @param copiesMax partitions that a row may be in
     * @param recallMin share of the nearest rows that approximate answers hold at the least
     */
    List<String> differences(
            Map<Long, Answer> answers, long indexedRows, int copiesMax, double recallMin) {
        List<String> wrong = new ArrayList<>();
        if (indexedRows < live.size() || indexedRows > (long) copiesMax * live.size()) {
            wrong.add(indexedRows + " rows are indexed and " + live.size() + " are live");
        }
        int hits = 0;
        int wanted = 0;
        Incoming query = new Incoming();
        for (int i = 0; i < script.queries(); i++) {
            script.fill(script.writes() + i, query);
            Answer answer = answers.get((long) i);
            if (answer == null) {
                wrong.add("query " + i + " was not answered");
            } else {
                double[] expected = nearest(query);
                compare(i, query, answer, expected, wrong);
                if (!script.exact(i)) {
                    hits += hits(answer, expected);
                    wanted += expected.length;
                }
            }
        }
        if (hits < recallMin * wanted) {
            wrong.add("approximate answers hold " + hits + " of " + wanted + " nearest rows");
        }
        return wrong;
    }

    /** Distances of the rows that a query asks for, ascending. */
    private double[] nearest(Incoming query) {
        double[] distances =
                live.values().stream().mapToDouble(row -> distance(query.vector, row)).toArray();
        Arrays.sort(distances);
        return Arrays.copyOf(distances, Math.min(query.k, distances.length));
    }

    private static int hits(Answer answer, double[] expected) {
        double last = expected[expected.length - 1];
        int hits = 0;
        for (double distance : answer.distances()) {
            hits += distance < last || !far(distance, last) ? 1 : 0;
        }
        return Math.min(hits, expected.length);
    }

    private void compare(
            int number, Incoming query, Answer answer, double[] expected, List<String> wrong) {
        int size = expected.length;
        if (answer.partial() || answer.ids().length != size) {
            wrong.add("query " + number + ": " + answer.ids().length + " rows for " + size);
        }
        Set<Long> seen = new HashSet<>();
        for (int i = 0; i < answer.ids().length; i++) {
            long id = answer.ids()[i];
            float[] row = live.get(id);
            double given = answer.distances()[i];
            if (!seen.add(id)) {
                wrong.add("query " + number + ": id " + id + " twice");
            } else if (row == null) {
                wrong.add("query " + number + ": id " + id + " was deleted");
            } else if (far(given, distance(query.vector, row))) {
                wrong.add("query " + number + ": id " + id + " with an old vector");
            } else if (script.exact(number) && i < size && far(given, expected[i])) {
                wrong.add("query " + number + ": rank " + i + " is not the nearest left");
            }
        }
    }

    private static boolean far(double a, double b) {
        return Math.abs(a - b) > TOLERANCE * Math.max(1, Math.abs(b));
    }

    private static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            double difference = (double) a[i] - b[i];
            sum += difference * difference;
        }
        return sum;
    }
}
