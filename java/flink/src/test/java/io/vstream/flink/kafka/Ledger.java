package io.vstream.flink.kafka;

import io.vstream.flink.ingest.Frontier;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * What was written to the topics, and what answers may therefore say.
 *
 * <p>Writes are a function of (seed, number): upserts and deletes of a few ids, in a window that
 * slides over all of them, so that what is lost stays lost for a while. An id always goes to one
 * partition, so its history is a list of offsets.
 *
 * <p>An answer says up to which offsets the writes are behind it; later ones may be or not. So for
 * a row of an id with frontier f the vector must be the last one before f or any later one, and an
 * answer that asks for all rows must hold every id whose last write of all is an upsert before f.
 * At rest, where f covers everything, this is an exact comparison. Only when the first template
 * moves the rows that came before it, a row may for a moment be in no partition: missing rows count
 * from {@link #strict} on. Safe for several threads.
 */
final class Ledger {

    static final int DIMENSION = 8;

    /** Rows that a query asks for to see all of them. */
    static final int ALL = 1_000;

    /** Ids that occur: fewer than {@link #ALL}. */
    static final int IDS = 900;

    private static final int FEW = 5;
    private static final int WINDOW = 100;
    private static final int WRITES_PER_ID = 100;
    private static final int CENTERS = 32;
    private static final int HOT_CENTERS = 3;
    private static final int WRITES_PER_CENTER = 5_000;
    private static final double TOLERANCE = 1e-4;

    private final long seed;
    private final long[] offsets;
    private final Map<Long, TreeMap<Long, Long>> history = new HashMap<>();
    private final Map<Long, Integer> answers = new HashMap<>();
    private final List<String> wrong = new ArrayList<>();
    private long writes;
    private long queries;
    private long ghosts;
    private long lostRows;
    private long duplicates;
    private long partial;
    private long strictFrom = Long.MAX_VALUE;

    /**
     * @param partitions of the topic of vectors
     */
    Ledger(long seed, int partitions) {
        this.seed = seed;
        this.offsets = new long[partitions];
    }

    /**
     * One record of the topic of vectors.
     *
     * @param vector null for a delete
     * @param offset that the record gets in its partition
     */
    record Written(long number, long id, float[] vector, int partition, long offset) {}

    /** The next write, which is noted as sent. */
    synchronized Written write() {
        long number = writes++;
        SplittableRandom random = random(number);
        long id = (number / WRITES_PER_ID + random.nextInt(WINDOW)) % IDS;
        boolean delete = random.nextInt(5) == 0;
        int partition = (int) (id % offsets.length);
        long offset = offsets[partition]++;
        history.computeIfAbsent(id, key -> new TreeMap<>()).put(offset, delete ? -1 : number);
        return new Written(number, id, delete ? null : vector(number), partition, offset);
    }

    /** Notes a record that is not one; returns its partition. */
    synchronized int writeBad() {
        int partition = (int) (writes % offsets.length);
        offsets[partition]++;
        return partition;
    }

    /** Number of the next query, which is its id. */
    synchronized long query() {
        return queries++;
    }

    /** Vector of a query: near an old or a present row. */
    synchronized float[] queryVector(long query) {
        return vector(random(~query).nextLong(Math.max(1, writes)));
    }

    /** Neighbours that a query asks for. */
    static int k(long query) {
        return query % 2 == 0 ? ALL : FEW;
    }

    /** Vector records written. */
    synchronized long writes() {
        return writes;
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

    /** Rows in answers that were deleted or replaced before the answer's frontier. */
    synchronized long ghosts() {
        return ghosts;
    }

    /** Rows that answers lack. */
    synchronized long lostRows() {
        return lostRows;
    }

    /** Answers that say that they lack a partition. */
    synchronized long partial() {
        return partial;
    }

    /** What is wrong, in words: at most a few dozen findings. */
    synchronized List<String> wrong() {
        return List.copyOf(wrong);
    }

    /** The writes until now if an answer has all of them behind it, or -1. */
    synchronized long covered(JsonNode answer) {
        long[] known = frontier(answer);
        for (int i = 0; i < offsets.length; i++) {
            if (known[i] < offsets[i]) {
                return -1;
            }
        }
        return writes;
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
        }
        if (answer.path("partial").asBoolean()) {
            partial++;
        }
        long[] frontier = frontier(answer);
        Set<Long> found = new HashSet<>();
        double before = -1;
        for (JsonNode row : answer.path("results")) {
            long id = row.path("id").asLong();
            double distance = row.path("distance").asDouble();
            if (!found.add(id) || row.path("rank").asInt() != found.size() || distance < before) {
                note("query " + query + ": rows out of order at " + row);
                ghosts++;
            }
            before = distance;
            if (!possible(id, frontier, vector, distance)) {
                ghosts++;
                note("query " + query + ": id " + id + " was deleted or replaced, " + answer);
            }
        }
        if (query >= strictFrom && k(query) == ALL && !answer.path("partial").asBoolean()) {
            rowsMissing(query, frontier, found);
        }
    }

    private void rowsMissing(long query, long[] frontier, Set<Long> found) {
        history.forEach(
                (id, versions) -> {
                    var last = versions.lastEntry();
                    boolean applied = last.getKey() < frontier[(int) (id % offsets.length)];
                    if (applied && last.getValue() >= 0 && !found.contains(id)) {
                        lostRows++;
                        note("query " + query + ": id " + id + " is missing");
                    }
                });
    }

    /** True if {@code id} may have been a row at that distance. */
    private boolean possible(long id, long[] frontier, float[] vector, double distance) {
        TreeMap<Long, Long> versions = history.get(id);
        if (versions == null) {
            return false;
        }
        long known = frontier[(int) (id % offsets.length)];
        Long from = versions.lowerKey(known);
        for (long number : versions.tailMap(from == null ? 0L : from, true).values()) {
            if (number >= 0 && near(distance, distance(vector, vector(number)))) {
                return true;
            }
        }
        return false;
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

    private void note(String finding) {
        if (wrong.size() < 30) {
            wrong.add(finding);
        }
    }

    private float[] vector(long number) {
        SplittableRandom random = random(number ^ Long.MIN_VALUE);
        SplittableRandom center = new SplittableRandom(seed ^ center(random, number));
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) (center.nextDouble() * 10 + random.nextDouble());
        }
        return vector;
    }

    /** Three of four near a few centers, others as time goes by, so that loads shift. */
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

    private static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            double difference = (double) a[i] - b[i];
            sum += difference * difference;
        }
        return sum;
    }
}
