package io.vstream.flink.kafka;

import io.vstream.flink.ingest.Frontier;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * What was written to the topics, and what answers may therefore say.
 *
 * <p>Writes are a function of (seed, number): upserts of one id after the other, among them upserts
 * and deletes of ids that were written lately, so that what is lost stays lost for a while.
 *
 * <p>An answer says up to which offsets the writes are behind it; later ones may be or not. So the
 * vector of a row must be the last one of its id before that frontier or any later one. A row is
 * <em>certain</em> if the last write of its id is an upsert before the frontier, and its life has
 * not ended by the newest time that was written. An exact answer must hold every certain row that
 * is nearer than its last one; at rest, where the frontier covers everything, that is an exact
 * comparison. Of an approximate answer it is counted how many rows are as near as the certain ones.
 * Only when the first template moves the rows that came before it, a row may for a moment be in no
 * partition: missing rows count from {@link #strict} on. Safe for several threads.
 */
final class Ledger {

    /** Neighbours of every other exact query; all others ask for {@link #FEW}. */
    static final int MANY = 500;

    static final int FEW = 10;

    /** Writes of an id that a finding tells of. */
    private static final int STORY = 4;

    private static final int LATELY = 50_000;
    private static final int LOTS = 5;
    private static final int CENTERS = 200;
    private static final int HOT_CENTERS = 20;
    private static final int WRITES_PER_CENTER = 5_000;
    private static final double TOLERANCE = 1e-4;

    /** Watermarks come by themselves every 200 ms, and timers after them. */
    private static final long EXPIRY_MILLIS = 1_000;

    private final Shape shape;
    private final boolean carrying;
    private final long seed;
    private final long[] offsets;
    private final Writes log;
    private final CertainRows certain;
    private final Recall recall;
    private final Map<Long, Integer> answers = new HashMap<>();
    private final List<String> wrong = new ArrayList<>();
    private long queries;
    private long ghosts;
    private long lostRows;
    private long duplicates;
    private long partial;
    private long strictFrom = Long.MAX_VALUE;

    /**
     * @param partitions of the topic of vectors
     */
    Ledger(Shape shape, long seed, int partitions) {
        this(shape, seed, partitions, false);
    }

    /**
     * @param carrying true if rows carry their lot, see {@link #lot}, and the number of their last
     *     write, some writes are updates of these, and some queries filter by a lot
     */
    Ledger(Shape shape, long seed, int partitions, boolean carrying) {
        this.shape = shape;
        this.carrying = carrying;
        this.seed = seed;
        this.offsets = new long[partitions];
        log = new Writes(shape.ids(), partitions);
        certain = new CertainRows(shape, log);
        recall = new Recall(shape.window());
    }

    /**
     * One record of the topic of vectors.
     *
     * @param vector null for a delete and an update
     * @param update true if it changes what the row carries and not its vector
     * @param offset that the record gets in its partition
     * @param time of the event
     */
    record Written(
            long number,
            long id,
            float[] vector,
            boolean update,
            int partition,
            long offset,
            long time) {}

    /** The next write, which is noted as sent. */
    synchronized Written write() {
        int number = log.size();
        SplittableRandom random = random(number);
        int id = number % shape.ids();
        boolean delete = false;
        if (number >= shape.load() && random.nextBoolean()) {
            id = (number - random.nextInt(Math.min(number, LATELY))) % shape.ids();
            delete = random.nextInt(5) < 2;
        }
        int partition = id % offsets.length;
        long offset = offsets[partition]++;
        long time = System.currentTimeMillis();
        boolean update =
                carrying
                        && number >= shape.load()
                        && !delete
                        && random.nextInt(3) == 0
                        && isYoung(id);
        float[] vector = delete || update ? null : vector(number);
        if (update) {
            log.update(id, (int) offset, time);
        } else {
            log.add(id, delete, (int) offset, time);
            certain.write(id, vector);
        }
        return new Written(number, id, vector, update, partition, offset, time);
    }

    /** True if a row is there, and its life will not end before an update of it is applied. */
    private boolean isYoung(int id) {
        int last = log.last(id);
        boolean ends = shape.lifeMillis() > 0;
        return last >= 0
                && !log.isDelete(last)
                && (!ends || log.time(last) + shape.lifeMillis() / 2 > System.currentTimeMillis());
    }

    /** The lot that a row is of after a write. */
    static int lot(long number) {
        return (int) (number % LOTS);
    }

    /** The lot that a query filters by, or -1. */
    int lotOf(long query) {
        return carrying && query % 3 == 0 ? lot(query / 3) : -1;
    }

    private boolean asksFor(long query, int number) {
        int lot = lotOf(query);
        return lot < 0 || lot == lot(number);
    }

    /** Notes a record that is not one; returns its partition. */
    synchronized int writeBad() {
        int partition = log.size() % offsets.length;
        offsets[partition]++;
        return partition;
    }

    /** Number of the next query, which is its id. */
    synchronized long query() {
        return queries++;
    }

    /** Vector of a query: near an old or a present row. */
    synchronized float[] queryVector(long query) {
        SplittableRandom random = random(~query);
        float[] vector = vector(random.nextInt(Math.max(1, log.size())));
        for (int i = 0; i < vector.length; i++) {
            vector[i] += (float) (0.2 * random.nextDouble());
        }
        return vector;
    }

    /** Neighbours that a query asks for. */
    static int k(long query) {
        return query % 4 == 0 ? MANY : FEW;
    }

    /** Half of the queries want an exact answer. */
    static boolean exact(long query) {
        return query % 2 == 0;
    }

    /** Vector records written. */
    synchronized long writes() {
        return log.size();
    }

    /** Answers to queries from now on must not lack a row. */
    synchronized void strict() {
        strictFrom = queries;
    }

    /** Queries asked. */
    synchronized long queries() {
        return queries;
    }

    /** Queries that have no answer. */
    synchronized long unanswered() {
        return queries - answers.size();
    }

    /** Answers beyond the first to a query. */
    synchronized long duplicates() {
        return duplicates;
    }

    /** Rows in answers that were deleted, replaced or over before the answer's frontier. */
    synchronized long ghosts() {
        return ghosts;
    }

    /** Rows that exact answers lack. */
    synchronized long lostRows() {
        return lostRows;
    }

    /** Answers that say that they lack a partition. */
    synchronized long partial() {
        return partial;
    }

    /** What approximate answers found. */
    synchronized Recall.Summary recall() {
        return recall.summary();
    }

    /** What is wrong, in words: at most a few dozen findings. */
    synchronized List<String> wrong() {
        return List.copyOf(wrong);
    }

    /** Rows that live for certain if everything that was written is applied. */
    synchronized int rows() {
        return certain.count(offsets);
    }

    /** The writes until now if an answer has all of them behind it, or -1. */
    synchronized long covered(JsonNode answer) {
        long[] known = frontier(answer);
        for (int i = 0; i < offsets.length; i++) {
            if (known[i] < offsets[i]) {
                return -1;
            }
        }
        return log.size();
    }

    /**
     * Compares an answer with what was written.
     *
     * @param vector of the query
     */
    synchronized void check(JsonNode answer, float[] vector) {
        long query = answer.path("query_id").asLong();
        if (answers.merge(query, 1, Integer::sum) > 1) {
            duplicates++;
            note("query " + query + " was answered again");
            return;
        }
        boolean whole = !answer.path("partial").asBoolean();
        partial += whole ? 0 : 1;
        long[] frontier = frontier(answer);
        long over = answer.path("watermark").asLong(Long.MIN_VALUE + EXPIRY_MILLIS) - EXPIRY_MILLIS;
        Set<Integer> found = new HashSet<>();
        double before = -1;
        for (JsonNode row : answer.path("results")) {
            int id =
                    carrying
                            ? Integer.parseInt(row.path("id").asText().replace("row-", ""))
                            : row.path("id").asInt();
            double distance = row.path("distance").asDouble();
            if (!found.add(id) || row.path("rank").asInt() != found.size() || distance < before) {
                note("query " + query + ": rows out of order at " + row);
                ghosts++;
            }
            before = distance;
            if (!possible(row, id, frontier, over, vector, query)) {
                ghosts++;
                note("query " + query + ": id " + id + " was deleted, replaced or over: " + row);
            }
        }
        if (query < strictFrom || !whole) {
            return;
        }
        if (exact(query)) {
            missing(answer, frontier, vector, found);
        } else {
            count(answer, frontier, vector);
        }
    }

    private void missing(JsonNode answer, long[] frontier, float[] vector, Set<Integer> found) {
        long query = answer.path("query_id").asLong();
        JsonNode rows = answer.path("results");
        double last =
                found.size() < k(query)
                        ? Double.POSITIVE_INFINITY
                        : rows.path(rows.size() - 1).path("distance").asDouble();
        List<Integer> lost = new ArrayList<>();
        certain.nearer(
                frontier,
                vector,
                last * (1 - TOLERANCE),
                number -> asksFor(query, number),
                (id, distance) -> lost.add(id));
        lost.removeAll(found);
        if (!lost.isEmpty()) {
            lostRows += lost.size();
            int first = lost.get(0);
            note(
                    "query %d of %d lacks %d rows; row %d was written by %s; the answer: %s"
                            .formatted(
                                    query,
                                    queries,
                                    lost.size(),
                                    first,
                                    story(first),
                                    ((ObjectNode) answer).deepCopy().without("results")));
        }
    }

    private void count(JsonNode answer, long[] frontier, float[] vector) {
        long query = answer.path("query_id").asLong();
        double[] nearest = certain.nearest(frontier, vector, FEW, number -> asksFor(query, number));
        double bound = nearest.length == 0 ? -1 : nearest[nearest.length - 1] * (1 + TOLERANCE);
        int hits = 0;
        for (JsonNode row : answer.path("results")) {
            hits += row.path("distance").asDouble() <= bound ? 1 : 0;
        }
        recall.add(Math.min(hits, nearest.length), nearest.length);
    }

    /** True if {@code id} may have been a row at that distance, and have carried that. */
    private boolean possible(
            JsonNode row, int id, long[] frontier, long over, float[] vector, long query) {
        double distance = row.path("distance").asDouble();
        if (id < 0 || id >= shape.ids()) {
            return false;
        }
        long known = frontier[id % offsets.length];
        for (int number = log.last(id); number >= 0; number = log.before(number)) {
            boolean ended = shape.lifeMillis() > 0 && log.time(number) + shape.lifeMillis() <= over;
            if (!log.isDelete(number)
                    && !ended
                    && asksFor(query, number)
                    && carries(row, number)
                    && near(distance, CertainRows.distance(vector, vector(log.vector(number))))) {
                return true;
            }
            if (log.offset(number) < known) {
                return false;
            }
        }
        return false;
    }

    /** True if a row of an answer carries what a write left it. */
    private boolean carries(JsonNode row, int number) {
        return !carrying
                || row.path("attributes").path("lot").asInt(-1) == lot(number)
                        && row.path("payload").path("n").asInt(-1) == number;
    }

    /** Offsets of an answer; what it does not know is 0. */
    private long[] frontier(JsonNode answer) {
        long[] frontier = new long[offsets.length];
        for (int i = 0; i < frontier.length; i++) {
            frontier[i] =
                    Math.max(0, answer.path("offsets").path("" + i).asLong(Frontier.NO_OFFSET));
        }
        return frontier;
    }

    /** Numbers of the writes of an id, newest first, of all that were written, and their ages. */
    private String story(int id) {
        List<String> story = new ArrayList<>();
        for (int number = log.last(id);
                number >= 0 && story.size() < STORY;
                number = log.before(number)) {
            story.add(
                    (log.isDelete(number) ? "delete " : "upsert ")
                            + number
                            + " "
                            + (log.latest() - log.time(number))
                            + " ms ago");
        }
        return story + " of " + log.size();
    }

    private void note(String finding) {
        if (wrong.size() < 30) {
            wrong.add(finding);
        }
    }

    private float[] vector(long number) {
        SplittableRandom random = random(number ^ Long.MIN_VALUE);
        SplittableRandom center = new SplittableRandom(seed ^ center(random, number));
        float[] vector = new float[shape.dimension()];
        for (int i = 0; i < vector.length; i++) {
            vector[i] = (float) (center.nextDouble() * 2 + random.nextDouble());
        }
        return vector;
    }

    /** Three of four near some centers, others as time goes by, so that loads shift. */
    private static long center(SplittableRandom random, long number) {
        if (random.nextInt(4) == 0) {
            return random.nextInt(CENTERS);
        }
        return (number / WRITES_PER_CENTER + random.nextInt(HOT_CENTERS)) % CENTERS;
    }

    private SplittableRandom random(long number) {
        return new SplittableRandom(seed * 31 + number);
    }

    private static boolean near(double a, double b) {
        return Math.abs(a - b) <= TOLERANCE * Math.max(1, Math.abs(b));
    }
}
