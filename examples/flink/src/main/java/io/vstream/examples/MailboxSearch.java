package io.vstream.examples;

import io.vstream.flink.VectorChange;
import io.vstream.flink.VectorQuery;
import io.vstream.flink.VectorSearch;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/**
 * A mailbox per user: each question sees the letters of one user alone, and asks for those that
 * have a word and lie near a vector. Ends with an answer for each user that has all changes behind
 * it.
 *
 * <pre>
 * make build
 * java -cp 'dist/lib/*:examples/flink/target/vstream-example-0.1.0.jar' \
 *     io.vstream.examples.MailboxSearch
 * </pre>
 */
public final class MailboxSearch {

    private static final String COLLECTION =
            """
            {"dimension": 3, "metric": "cosine", "id": "string",
             "attributes": {"read": "bool", "text": "text"}, "groups": {"mode": "isolated"}}
            """;

    private static final String UNREAD =
            """
            {"must": [{"key": "read", "match": {"value": false}}]}
            """;

    private static final String[] USERS = {"ann", "bob", "eve"};

    private MailboxSearch() {}

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
                        letter("ann", "1", "the invoice", 1, 0, 0),
                        letter("ann", "2", "remember the invoice", 0.9f, 0.1f, 0),
                        letter("ann", "3", "holidays", 0, 1, 0),
                        // Ids are those of the mailbox: bob has a letter 1 of his own.
                        letter("bob", "1", "a receipt", 0.8f, 0.2f, 0),
                        letter("eve", "1", "an offer", 1, 0, 0),
                        VectorChange.update("1").in("ann").with("read", true),
                        // Eve leaves, and her letters with her.
                        VectorChange.dropGroup("eve"));
        DataStream<VectorQuery> questions =
                env.fromSequence(0, Long.MAX_VALUE)
                        .setParallelism(1)
                        .map(MailboxSearch::unreadBills)
                        .returns(VectorQuery.TYPE)
                        .setParallelism(1);

        VectorSearch search =
                VectorSearch.collection(COLLECTION)
                        .vectors(changes)
                        .queries(questions)
                        .k(2)
                        .build();

        Map<String, String> found = new TreeMap<>();
        try (CloseableIterator<Answer> answers = search.results().executeAndCollect()) {
            while (found.size() < USERS.length) {
                Answer answer = answers.next();
                if (answer.frontier().watermark() == Long.MAX_VALUE && !answer.partial()) {
                    found.put(user(answer.ticket().queryId()), shown(answer));
                }
            }
        }
        out.println(found);
    }

    private static VectorChange letter(String user, String id, String text, float... vector) {
        return VectorChange.upsert(id, vector)
                .in(user)
                .with("read", false)
                .with("text", text)
                .withPayload(text.getBytes(StandardCharsets.UTF_8));
    }

    private static VectorQuery unreadBills(long number) throws InterruptedException {
        Thread.sleep(20);
        return VectorQuery.of(number, 1, 0, 0)
                .in(user(number))
                .where(UNREAD)
                .matching("invoice receipt")
                .rankedBy("closeness + $words * bm25", Map.of("words", 0.2))
                .with("payload");
    }

    private static String user(long question) {
        return USERS[(int) (question % USERS.length)];
    }

    private static String shown(Answer answer) {
        return Arrays.stream(answer.rows()).map(MailboxSearch::text).toList().toString();
    }

    private static String text(AnswerRow row) {
        return new String(row.payload(), StandardCharsets.UTF_8);
    }
}
