package io.vstream.flink;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.BadRecord;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import io.vstream.flink.row.Shop;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Products whose price, colour and stock change in a stream, while queries filter on them. Once the
 * stream has ended, exact answers are those of a comparison with every product.
 */
class ShopIT {

    private static final int DIMENSION = 64;
    private static final int PRODUCTS = 3_000;
    private static final int CHANGES = 12_000;
    private static final int K = 20;
    private static final List<String> COLOURS = List.of("red", "green", "blue", "black");
    private static final long PATIENCE_NANOS = Duration.ofSeconds(120).toNanos();

    private final StreamExecutionEnvironment env = environment();

    /** A product as the oracle knows it. */
    private static final class Product {
        private float[] vector;
        private final Map<String, Object> values = new HashMap<>();
        private byte[] payload;
    }

    @ParameterizedTest
    @ValueSource(strings = {"cells", "id"})
    void filteredAnswersAreThoseOfAComparisonWithEveryProduct(String encoder) throws Exception {
        Map<String, Product> oracle = new LinkedHashMap<>();
        List<VectorChange> changes = changes(new SplittableRandom(23), oracle);
        SplittableRandom random = new SplittableRandom(29);
        List<float[]> questions = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            questions.add(vector(random));
        }
        VectorSearch search =
                VectorSearch.collection(settings(encoder))
                        .vectors(
                                env.fromData(
                                        VectorChange.TYPE, changes.toArray(VectorChange[]::new)))
                        .queries(
                                env.fromSequence(0, Long.MAX_VALUE)
                                        .setParallelism(1)
                                        .map(number -> question(number, questions))
                                        .returns(VectorQuery.TYPE)
                                        .setParallelism(1))
                        .k(K)
                        .partitions(3)
                        .trainingSample(1_000)
                        .build();
        Map<Long, Answer> last = new HashMap<>();
        long end = System.nanoTime() + PATIENCE_NANOS;
        int all = 4 * questions.size();
        try (CloseableIterator<Answer> answers = search.results().executeAndCollect()) {
            while (last.size() < all && System.nanoTime() < end) {
                Answer answer = answers.next();
                // The stream of products has ended, and all of it is applied.
                if (answer.frontier().watermark() == Long.MAX_VALUE && !answer.partial()) {
                    last.put(answer.ticket().queryId() % all, answer);
                }
            }
        }
        assertThat(last).as("answers behind all products").hasSize(all);
        last.forEach((number, answer) -> check(number, answer, questions, oracle));
    }

    @Test
    void whatBreaksTheSchemaComesBackByReason() throws Exception {
        float[] vector = new float[DIMENSION];
        vector[0] = 1;
        DataStream<VectorChange> changes =
                env.fromData(
                        VectorChange.upsert("a", vector).with("price", "cheap"),
                        VectorChange.upsert("b", vector).with("size", 3),
                        VectorChange.upsert("c", vector).withPayload(new byte[(1 << 20) + 1]),
                        VectorChange.upsert("", vector),
                        VectorChange.upsert(7, vector),
                        VectorChange.dropGroup("ann"),
                        VectorChange.upsert("e", vector).with("price", 3));
        DataStream<VectorQuery> questions =
                env.fromData(
                        VectorQuery.of(1, vector).where("{\"must\":[{\"key\":\"size\"}]}"),
                        VectorQuery.of(2, vector).where("no json"),
                        VectorQuery.of(3, vector).with("size"),
                        VectorQuery.of(4, vector).within(Float.POSITIVE_INFINITY),
                        VectorQuery.of(5, vector).in("ann"),
                        VectorQuery.of(6, vector).matching("words"));
        VectorSearch search =
                VectorSearch.collection(settings("id")).vectors(changes).queries(questions).build();
        Map<BadRecord.Reason, Integer> reasons = new HashMap<>();
        try (CloseableIterator<BadRecord> refused = search.refused().executeAndCollect()) {
            refused.forEachRemaining(one -> reasons.merge(one.reason(), 1, Integer::sum));
        }
        assertThat(reasons)
                .isEqualTo(
                        Map.of(
                                BadRecord.Reason.WRONG_TYPE, 1,
                                BadRecord.Reason.UNKNOWN_ATTRIBUTE, 2,
                                BadRecord.Reason.TOO_LARGE, 1,
                                BadRecord.Reason.BAD_ID, 2,
                                BadRecord.Reason.BAD_FILTER, 2,
                                BadRecord.Reason.BAD_RADIUS, 1,
                                BadRecord.Reason.BAD_GROUP, 2,
                                BadRecord.Reason.BAD_RANK, 1));
    }

    private static String settings(String encoder) {
        String cells = encoder.equals("cells") ? ", \"cells\": 32" : "";
        return "{\"dimension\": "
                + DIMENSION
                + ", \"metric\": \"cosine\", \"id\": \"string\", "
                + Shop.KEYS
                + ", \"encoder\": {\"kind\": \""
                + encoder
                + "\""
                + cells
                + "}}";
    }

    /** New products, other vectors, other prices, sold out, and events that come too late. */
    private static List<VectorChange> changes(
            SplittableRandom random, Map<String, Product> oracle) {
        List<VectorChange> changes = new ArrayList<>();
        for (int i = 0; i < CHANGES; i++) {
            int number = i < PRODUCTS ? i : random.nextInt(PRODUCTS);
            String id = "sku-" + number;
            Product product = oracle.get(id);
            int kind = product == null ? 0 : random.nextInt(10);
            if (kind == 9) {
                oracle.remove(id);
                changes.add(VectorChange.delete(id).ifNewer(i));
            } else if (kind >= 3) {
                changes.add(update(id, product, random).ifNewer(i));
            } else {
                Product next = new Product();
                next.vector = vector(random);
                next.values.put("price", (double) random.nextInt(100));
                next.values.put("colour", COLOURS.get(random.nextInt(COLOURS.size())));
                next.values.put("stock", (long) random.nextInt(5));
                next.payload = ("{\"n\":" + i + "}").getBytes(StandardCharsets.UTF_8);
                oracle.put(id, next);
                changes.add(
                        VectorChange.upsert(id, next.vector)
                                .withAll(new LinkedHashMap<>(next.values))
                                .withPayload(next.payload)
                                .ifNewer(i));
            }
            if (random.nextInt(20) == 0) {
                // An event of long ago.
                changes.add(VectorChange.upsert(id, vector(random)).ifNewer(i - 1));
            }
        }
        return changes;
    }

    private static VectorChange update(String id, Product product, SplittableRandom random) {
        VectorChange update = VectorChange.update(id);
        if (random.nextBoolean()) {
            double price = random.nextInt(100);
            product.values.put("price", price);
            update = update.with("price", price);
        }
        if (random.nextInt(8) == 0) {
            product.values.remove("colour");
            update = update.with("colour", null);
        }
        long stock = random.nextInt(5);
        product.values.put("stock", stock);
        return update.with("stock", (int) stock);
    }

    private static VectorQuery question(long number, List<float[]> questions) throws Exception {
        Thread.sleep(1);
        int vectors = questions.size();
        VectorQuery query = VectorQuery.of(number, questions.get((int) (number % vectors)));
        return switch ((int) (number / vectors % 4)) {
            case 0 ->
                    query.where(
                                    "{\"must\":[{\"key\":\"colour\",\"match\":{\"value\":\"red\"}},"
                                            + "{\"key\":\"price\",\"range\":{\"lt\":50}}]}")
                            .with("price", "colour", "stock", "payload")
                            .withExactAnswer();
            case 1 ->
                    query.where(
                                    "{\"must_not\":[{\"key\":\"stock\",\"range\":{\"lte\":0}},"
                                            + "{\"is_null\":{\"key\":\"colour\"}}]}")
                            .with("stock")
                            .withExactAnswer();
            case 2 -> query.within(0.85f).with("price").withExactAnswer();
            default -> query.withExactAnswer();
        };
    }

    private static void check(
            long number, Answer answer, List<float[]> questions, Map<String, Product> oracle) {
        int vectors = questions.size();
        int kind = (int) (number / vectors % 4);
        float[] question = questions.get((int) (number % vectors));
        List<Map.Entry<String, Product>> expected = new ArrayList<>();
        for (Map.Entry<String, Product> one : oracle.entrySet()) {
            boolean near = kind != 2 || distance(question, one.getValue().vector) <= 0.85;
            if (near && matches(kind, one.getValue())) {
                expected.add(one);
            }
        }
        expected.sort(
                (a, b) ->
                        Double.compare(
                                distance(question, a.getValue().vector),
                                distance(question, b.getValue().vector)));
        int size = Math.min(K, expected.size());
        assertThat(answer.rows()).as("query %d", number).hasSize(size);
        for (int i = 0; i < size; i++) {
            AnswerRow row = answer.rows()[i];
            Product product = oracle.get(row.id());
            assertThat(product).as("product %s", row.id()).isNotNull();
            // Ids may differ where distances are equal to the last bits.
            assertThat((double) answer.distances()[i])
                    .isCloseTo(
                            distance(question, expected.get(i).getValue().vector),
                            org.assertj.core.data.Offset.offset(1e-4));
            assertThat(matches(kind, product)).isTrue();
            checkCarried(kind, row, product);
        }
    }

    private static void checkCarried(int kind, AnswerRow row, Product product) {
        Map<String, Object> asked = new HashMap<>();
        List<String> names =
                switch (kind) {
                    case 0 -> List.of("price", "colour", "stock");
                    case 1 -> List.of("stock");
                    case 2 -> List.of("price");
                    default -> List.of();
                };
        for (String name : names) {
            if (product.values.get(name) != null) {
                asked.put(name, product.values.get(name));
            }
        }
        assertThat(row.attributes()).isEqualTo(asked);
        assertThat(row.payload()).isEqualTo(kind == 0 ? product.payload : null);
    }

    private static boolean matches(int kind, Product product) {
        Map<String, Object> values = product.values;
        return switch (kind) {
            case 0 -> "red".equals(values.get("colour")) && (double) values.get("price") < 50;
            case 1 -> (long) values.get("stock") > 0 && values.get("colour") != null;
            default -> true;
        };
    }

    private static double distance(float[] one, float[] other) {
        double dot = 0;
        double ones = 0;
        double others = 0;
        for (int i = 0; i < one.length; i++) {
            dot += (double) one[i] * other[i];
            ones += (double) one[i] * one[i];
            others += (double) other[i] * other[i];
        }
        return 1 - dot / Math.sqrt(ones * others);
    }

    private static float[] vector(SplittableRandom random) {
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) (random.nextDouble() - 0.5);
        }
        return vector;
    }

    private static StreamExecutionEnvironment environment() {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(VectorSearch.flinkSettings());
        env.setParallelism(2);
        return env;
    }
}
