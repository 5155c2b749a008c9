package io.vstream.flink.job;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What answers about products must be: every live one in a map, and every filter asked of it. */
final class ProductOracle {

    private static final double TOLERANCE = 1e-4;

    private final ProductScript script;
    private final Map<String, Product> live = new HashMap<>();
    private final Map<String, Long> orders = new HashMap<>();

    private static final class Product {
        private final float[] vector;
        private final Map<String, Object> values = new HashMap<>();
        private byte[] payload;

        private Product(float[] vector) {
            this.vector = vector;
        }
    }

    ProductOracle(ProductScript script) {
        this.script = script;
        for (int i = 0; i < script.of().writes(); i++) {
            apply(script.change(i));
        }
    }

    private void apply(ProductScript.Change change) {
        String id = change.id();
        if (orders.getOrDefault(id, Long.MIN_VALUE) >= change.newer()) {
            return;
        }
        if (change.kind() == Incoming.Kind.UPDATE && !live.containsKey(id)) {
            return;
        }
        orders.put(id, change.newer());
        if (change.kind() == Incoming.Kind.DELETE) {
            live.remove(id);
            return;
        }
        if (change.kind() == Incoming.Kind.UPSERT) {
            live.put(id, new Product(change.vector()));
        }
        Product product = live.get(id);
        change.values()
                .forEach(
                        (name, value) -> {
                            if (value == null) {
                                product.values.remove(name);
                            } else {
                                product.values.put(name, value);
                            }
                        });
        if (change.payload() != null || change.payloadGoes()) {
            product.payload = change.payload();
        }
    }

    /** What is wrong with the answers and the number of indexed rows; empty if nothing is. */
    List<String> differences(Map<Long, Answer> answers, long indexedRows) {
        List<String> wrong = new ArrayList<>();
        if (indexedRows != live.size()) {
            wrong.add(indexedRows + " rows are indexed and " + live.size() + " are live");
        }
        int hits = 0;
        int wanted = 0;
        Incoming query = new Incoming();
        for (int i = 0; i < script.of().queries(); i++) {
            script.of().fill(script.of().writes() + i, query);
            Answer answer = answers.get((long) i);
            if (answer == null) {
                wrong.add("query " + i + " was not answered");
                continue;
            }
            double[] expected = nearest(query, script.ask(i));
            compare(i, query, answer, expected, wrong);
            if (!script.of().exact(i) && expected.length > 0) {
                double last = expected[expected.length - 1];
                wanted += expected.length;
                for (double distance : answer.distances()) {
                    hits += distance < last || !far(distance, last) ? 1 : 0;
                }
            }
        }
        if (hits < (Oracle.TARGET - 0.02) * wanted) {
            wrong.add("filtered answers hold " + hits + " of " + wanted + " nearest products");
        }
        return wrong;
    }

    private double[] nearest(Incoming query, ProductScript.Ask ask) {
        double[] distances =
                live.values().stream()
                        .filter(product -> ask.matches().test(product.values))
                        .mapToDouble(product -> distance(query.vector, product.vector))
                        .sorted()
                        .toArray();
        return Arrays.copyOf(distances, Math.min(query.k, distances.length));
    }

    private void compare(
            int number, Incoming query, Answer answer, double[] expected, List<String> wrong) {
        ProductScript.Ask ask = script.ask(number);
        if (answer.partial() || answer.rows().length != expected.length) {
            wrong.add(
                    "query %d: %d rows for %d"
                            .formatted(number, answer.rows().length, expected.length));
        }
        Set<String> seen = new HashSet<>();
        for (int i = 0; i < answer.rows().length; i++) {
            AnswerRow row = answer.rows()[i];
            Product product = live.get(row.id());
            double given = answer.distances()[i];
            String what = null;
            if (!seen.add(row.id())) {
                what = "twice";
            } else if (product == null) {
                what = "was deleted";
            } else if (!ask.matches().test(product.values)) {
                what = "does not match: " + product.values;
            } else if (far(given, distance(query.vector, product.vector))) {
                what = "with an old vector";
            } else if (!carried(ask, product).equals(row.attributes())) {
                what = "carries " + row.attributes() + " and not " + product.values;
            } else if (!Arrays.equals(
                    ask.with().contains("payload") ? product.payload : null, row.payload())) {
                what = "with another payload";
            } else if (script.of().exact(number)
                    && i < expected.length
                    && far(given, expected[i])) {
                what = "at rank " + i + " is not the nearest left";
            }
            if (what != null) {
                wrong.add("query " + number + ": " + row.id() + " " + what);
            }
        }
    }

    private static Map<String, Object> carried(ProductScript.Ask ask, Product product) {
        Map<String, Object> carried = new HashMap<>(product.values);
        carried.keySet().retainAll(ask.with());
        return carried;
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
