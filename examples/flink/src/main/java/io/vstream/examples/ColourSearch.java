package io.vstream.examples;

import io.vstream.flink.VectorChange;
import io.vstream.flink.VectorQuery;
import io.vstream.flink.VectorSearch;
import io.vstream.flink.merge.Answer;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/**
 * Keeps colours in a collection while they change, and asks again and again which are nearest to
 * red. Ends with the first answer that has all changes behind it.
 *
 * <pre>
 * make build
 * java -cp 'dist/lib/*:examples/flink/target/vstream-example-0.1.0.jar' \
 *     io.vstream.examples.ColourSearch
 * </pre>
 */
public final class ColourSearch {

    private static final List<String> NAMES =
            List.of("red", "crimson", "orange", "green", "blue", "navy");

    private ColourSearch() {}

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
                        VectorChange.upsert(0, 255, 0, 0),
                        VectorChange.upsert(1, 0, 0, 0), // Crimson is not black: corrected below.
                        VectorChange.upsert(2, 255, 165, 0),
                        VectorChange.upsert(3, 0, 128, 0),
                        VectorChange.upsert(4, 0, 0, 255),
                        VectorChange.upsert(5, 0, 0, 128),
                        VectorChange.upsert(1, 220, 20, 60),
                        VectorChange.delete(5));
        DataStream<VectorQuery> questions =
                env.fromSequence(0, Long.MAX_VALUE)
                        .setParallelism(1)
                        .map(ColourSearch::nearlyRed)
                        .returns(VectorQuery.TYPE)
                        .setParallelism(1);

        // The encoder cells learns from thousands of rows; so few are spread by id.
        VectorSearch search =
                VectorSearch.collection(
                                "{\"dimension\": 3, \"metric\": \"l2\","
                                        + " \"encoder\": {\"kind\": \"id\"}}")
                        .vectors(changes)
                        .queries(questions)
                        .k(3)
                        .build();

        try (CloseableIterator<Answer> answers = search.results().executeAndCollect()) {
            Answer answer = answers.next();
            // This stream of changes ends, and its last watermark is the largest number. A stream
            // without end would give its rows timestamps.
            while (answer.frontier().watermark() < Long.MAX_VALUE) {
                answer = answers.next();
            }
            out.println(
                    "nearest to red: "
                            + Arrays.stream(answer.ids())
                                    .mapToObj(id -> NAMES.get((int) id))
                                    .toList());
        }
    }

    private static VectorQuery nearlyRed(long number) throws InterruptedException {
        Thread.sleep(20);
        return VectorQuery.of(number, 250, 5, 5);
    }
}
