package io.vstream.examples;

import io.vstream.flink.VectorChange;
import io.vstream.flink.VectorQuery;
import io.vstream.flink.VectorSearch;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/**
 * A shop: prices and stocks of products change while queries ask for products that look like a red
 * chair, cost less than 50 and can be delivered. Ends with the first answer that has all changes
 * behind it.
 *
 * <pre>
 * make build
 * java -cp 'dist/lib/*:examples/flink/target/vstream-example-0.1.0.jar' \
 *     io.vstream.examples.ShopSearch
 * </pre>
 */
public final class ShopSearch {

    private static final String COLLECTION =
            """
            {"dimension": 3, "metric": "l2", "encoder": {"kind": "id"}, "id": "string",
             "attributes": {"price": "f64", "colour": "keyword", "stock": "i64"}}
            """;

    private static final String FILTER =
            """
            {"must": [{"key": "price", "range": {"lt": 50}}, {"key": "stock", "range": {"gt": 0}}]}
            """;

    private ShopSearch() {}

    /** Runs it here, on a Flink inside this process. */
    public static void main(String[] arguments) throws Exception {
        run(System.out);
    }

    static void run(PrintStream out) throws Exception {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(VectorSearch.flinkSettings());
        env.setParallelism(2);

        DataStream<VectorChange> changes =
                env.fromData(
                        product("chair", 60, "red", 3, 1, 0, 0),
                        product("stool", 20, "red", 8, 0.9f, 0.1f, 0),
                        product("bench", 45, "green", 1, 0.7f, 0.3f, 0),
                        product("table", 30, "red", 2, 0, 1, 0),
                        // The chair becomes cheaper, and the bench is sold: no vector is sent.
                        VectorChange.update("chair").with("price", 48),
                        VectorChange.update("bench").with("stock", 0),
                        // An event that comes too late changes nothing.
                        VectorChange.update("stool").with("price", 19).ifNewer(2),
                        VectorChange.update("stool").with("price", 99).ifNewer(1));
        DataStream<VectorQuery> questions =
                env.fromSequence(0, Long.MAX_VALUE)
                        .setParallelism(1)
                        .map(ShopSearch::likeARedChair)
                        .returns(VectorQuery.TYPE)
                        .setParallelism(1);

        VectorSearch search =
                VectorSearch.collection(COLLECTION)
                        .vectors(changes)
                        .queries(questions)
                        .k(3)
                        .build();

        try (CloseableIterator<Answer> answers = search.results().executeAndCollect()) {
            Answer answer = answers.next();
            while (answer.frontier().watermark() < Long.MAX_VALUE) {
                answer = answers.next();
            }
            out.println(Arrays.stream(answer.rows()).map(ShopSearch::shown).toList());
        }
    }

    private static VectorChange product(
            String id, double price, String colour, int stock, float... vector) {
        return VectorChange.upsert(id, vector)
                .with("price", price)
                .with("colour", colour)
                .with("stock", stock)
                .withPayload(("the " + id).getBytes(StandardCharsets.UTF_8));
    }

    private static VectorQuery likeARedChair(long number) throws InterruptedException {
        Thread.sleep(20);
        return VectorQuery.of(number, 1, 0, 0).where(FILTER).with("price", "payload");
    }

    private static String shown(AnswerRow row) {
        String payload = new String(row.payload(), StandardCharsets.UTF_8);
        return payload + " for " + row.attributes().get("price");
    }
}
