package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerRow;
import io.vstream.flink.route.SpreadGroup;
import io.vstream.flink.row.FieldsBuilder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/** Groups of rows that change in a stream, and what the answers about them must be. */
final class Mailboxes {

    private static final int DIMENSION = 64;
    private static final int GROUPS = 2_000;

    /** The largest group; half of all groups have one row, and the mean is some 20. */
    private static final int ROWS_MAX = 2_000;

    /** The largest group is spread as soon as a query finds it so. */
    private static final int SPREAD_ROWS = 1_000;

    private static final int K = 10;
    private static final int QUERIES = 150;
    private static final double TOLERANCE = 1e-4;
    private static final long LIMIT_NANOS = Duration.ofSeconds(60).toNanos();
    private static final List<String> COLOURS = List.of("red", "green", "blue", "black");
    private static final String FILTER =
            "{\"must\":[{\"key\":\"price\",\"range\":{\"lt\":50}},"
                    + "{\"key\":\"colour\",\"match\":{\"value\":\"red\"}}]}";

    private final SplittableRandom random;
    private final long seed;
    private final RecordLog log;
    private final Answers answers;
    private final FieldsBuilder fields = new FieldsBuilder(settings(1, 128).dataflow().schema());
    private final Map<String, TreeMap<Long, Row>> live = new HashMap<>();
    private final int[] sizes = new int[GROUPS];

    /** Groups that were dropped at some time, and may have been large before. */
    private final Set<String> dropped = new HashSet<>();

    /** A newer number than any before. */
    private long newest;

    private long queries;

    /** True once the largest group is spread, for ever. */
    private boolean spread;

    private boolean dropsLargest;

    /** A row of the oracle. */
    private static final class Row {
        private float[] vector;
        private Long price;
        private String colour;
        private byte[] payload;
    }

    Mailboxes(long seed, RecordLog log, Answers answers) {
        this.seed = seed;
        this.random = new SplittableRandom(seed);
        this.log = log;
        this.answers = answers;
        for (int group = 0; group < GROUPS; group++) {
            sizes[group] = Math.max(1, (int) Math.pow(ROWS_MAX, Math.pow(random.nextDouble(), 12)));
        }
        sizes[0] = ROWS_MAX;
    }

    /** Settings of a job for these rows. */
    static JobSettings settings(int parallelism, int shards) {
        return JobSettings.fromJson(
                """
                {"parallelism": %d,
                 "collection": {"dimension": %d, "metric": "cosine", "element": "f32", "seed": 7,
                                "shards": %d,
                                "attributes": {"price": "i64", "colour": "keyword"},
                                "groups": {"mode": "isolated", "spread-rows": %d},
                                "memory": 2097152},
                 "vectors": {"kind": "file", "path": "log"},
                 "queries": {"kind": "file", "path": "log", "k": 10}}
                """
                        .formatted(parallelism, DIMENSION, shards, SPREAD_ROWS));
    }

    /** Writes every row once. */
    void insert() {
        List<Incoming> writes = new ArrayList<>();
        for (int group = 0; group < GROUPS; group++) {
            for (long id = 0; id < sizes[group]; id++) {
                writes.add(upsert(name(group), id));
            }
        }
        log.append(writes);
    }

    /** From now on the largest group is dropped now and then, too, with the rows it began with. */
    void dropLargest() {
        dropsLargest = true;
    }

    /** Replaces, updates and deletes rows, drops groups, and repeats what is too old. */
    void change(int count) {
        List<Incoming> writes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            // Every fifth change is one of the largest group.
            int number = random.nextInt(5) == 0 ? 0 : random.nextInt(GROUPS);
            String group = name(number);
            long id = random.nextInt(sizes[number]);
            Row row = rows(group).get(id);
            int kind = random.nextInt(100);
            if (kind == 0 && (number != 0 || dropsLargest)) {
                live.remove(group);
                dropped.add(group);
                writes.add(record(Incoming.Kind.DROP_GROUP, group, 0, new float[0]));
            } else if (kind < 20) {
                rows(group).remove(id);
                writes.add(record(Incoming.Kind.DELETE, group, id, new float[0]));
            } else if (kind < 60 && row != null) {
                writes.add(update(group, id, row));
            } else {
                Incoming write = upsert(group, id);
                write.newer = ++newest;
                writes.add(write);
                if (kind > 90) {
                    Incoming old = record(Incoming.Kind.UPSERT, group, id, vector());
                    old.newer = newest - 1;
                    writes.add(old);
                }
            }
        }
        log.append(writes);
    }

    private Incoming upsert(String group, long id) {
        Row row = new Row();
        row.vector = vector();
        row.price = (long) random.nextInt(100);
        row.colour = COLOURS.get(random.nextInt(COLOURS.size()));
        row.payload = (group + "/" + id + "/" + random.nextInt()).getBytes(StandardCharsets.UTF_8);
        rows(group).put(id, row);
        Incoming write = record(Incoming.Kind.UPSERT, group, id, row.vector);
        fields.clear();
        assertThat(fields.set("price", row.price)).isNull();
        assertThat(fields.set("colour", row.colour)).isNull();
        assertThat(fields.payload(row.payload)).isNull();
        write.fields = fields.row();
        return write;
    }

    private Incoming update(String group, long id, Row row) {
        Incoming write = record(Incoming.Kind.UPDATE, group, id, new float[0]);
        fields.clear();
        row.price = random.nextInt(10) == 0 ? null : Long.valueOf(random.nextInt(100));
        assertThat(fields.set("price", row.price)).isNull();
        if (random.nextBoolean()) {
            row.payload = ("changed " + random.nextInt()).getBytes(StandardCharsets.UTF_8);
            assertThat(fields.payload(row.payload)).isNull();
        }
        write.fields = fields.change();
        return write;
    }

    private static Incoming record(Incoming.Kind kind, String group, long id, float[] vector) {
        Incoming record = new Incoming();
        record.kind = kind;
        record.group = group;
        record.id = id;
        record.vector = vector;
        return record;
    }

    private TreeMap<Long, Row> rows(String group) {
        return live.computeIfAbsent(group, name -> new TreeMap<>());
    }

    private static String name(int group) {
        return "box-" + group;
    }

    private float[] vector() {
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) random.nextDouble(-1, 1);
        }
        return vector;
    }

    /** Asks until something is so; whole answers are right, as no row is written meanwhile. */
    void askWhileSomethingHappens(Callable<Boolean> happened) throws Exception {
        long end = System.nanoTime() + LIMIT_NANOS;
        List<Incoming> asked = new ArrayList<>();
        while (!happened.call()) {
            asked.addAll(ask(4));
            Thread.sleep(20);
            assertThat(System.nanoTime()).as("it should have happened").isLessThan(end);
        }
        List<Answer> all = await(asked);
        for (int i = 0; i < all.size(); i++) {
            if (!all.get(i).partial()) {
                assertThat(difference(asked.get(i), all.get(i))).isEmpty();
            }
        }
    }

    /**
     * Compares answers with the truth. Writes that are still on their way get some time, and
     * answers that took all of it are asked for once more.
     */
    void check() throws Exception {
        long end = System.nanoTime() + LIMIT_NANOS / 2;
        List<String> wrong;
        long asking;
        do {
            wrong = new ArrayList<>();
            asking = System.nanoTime();
            List<Incoming> asked = ask(QUERIES);
            List<Answer> given = await(asked);
            for (int i = 0; i < given.size(); i++) {
                wrong.addAll(difference(asked.get(i), given.get(i)));
                assertThat(given.get(i).fanOut()).isIn(fanOuts(asked.get(i).group));
            }
        } while (!wrong.isEmpty() && asking < end);
        assertThat(wrong).as("seed %d", seed).isEmpty();
    }

    /** Asks the largest group until its queries go to all of its slices. */
    void awaitSpread() throws Exception {
        long end = System.nanoTime() + LIMIT_NANOS;
        // Queries go to the routers in turn.
        for (int routers = 0; routers < 12; ) {
            assertThat(System.nanoTime()).as("the largest group is spread").isLessThan(end);
            routers = await(ask(1)).get(0).fanOut() > 1 ? routers + 1 : 0;
            Thread.sleep(10);
        }
        spread = true;
    }

    /** Other groups that are large are spread once they are asked, and small ones never. */
    private List<Integer> fanOuts(String group) {
        int slices = SpreadGroup.slices(1);
        boolean small = live.getOrDefault(group, new TreeMap<>()).size() <= SPREAD_ROWS / 3;
        if (group.equals(name(0)) && spread) {
            return List.of(1 + slices);
        }
        return small && !dropped.contains(group) ? List.of(1) : List.of(1, 1 + slices);
    }

    /** No query of this test is without an answer. */
    void everythingWasAnswered() {
        assertThat(answers.byQuery()).hasSize((int) queries);
    }

    private List<Incoming> ask(int count) {
        List<Incoming> asked = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            // The largest group, one that is not there, and any.
            int group = i % 10 == 0 ? 0 : i == 1 ? GROUPS : random.nextInt(GROUPS);
            Incoming query = RecordLog.query(queries++, vector(), K, 0);
            query.group = name(group);
            query.filter = i % 3 == 2 ? FILTER : null;
            query.with = i % 2 == 0 ? new String[] {"price", "payload"} : new String[0];
            asked.add(query);
        }
        log.append(asked);
        return asked;
    }

    private List<Answer> await(List<Incoming> asked) throws InterruptedException {
        long end = System.nanoTime() + LIMIT_NANOS;
        List<Answer> all = new ArrayList<>();
        for (Incoming query : asked) {
            Answer answer = answers.byQuery().get(query.id);
            while (answer == null) {
                assertThat(System.nanoTime()).as("query %d is answered", query.id).isLessThan(end);
                Thread.sleep(5);
                answer = answers.byQuery().get(query.id);
            }
            all.add(answer);
        }
        return all;
    }

    /** What is wrong with an answer; empty if nothing is. */
    private List<String> difference(Incoming query, Answer answer) {
        TreeMap<Long, Row> rows = live.getOrDefault(query.group, new TreeMap<>());
        double[] truth =
                rows.values().stream()
                        .filter(row -> query.filter == null || passes(row))
                        .mapToDouble(row -> distance(query.vector, row.vector))
                        .sorted()
                        .limit(K)
                        .toArray();
        String what = "query " + query.id + " to " + query.group + ": ";
        if (answer.partial() || answer.ids().length != truth.length) {
            return List.of(what + answer.ids().length + " rows, not " + truth.length);
        }
        for (int i = 0; i < truth.length; i++) {
            Row row = rows.get(answer.ids()[i]);
            if (row == null || (query.filter != null && !passes(row))) {
                return List.of(what + "a row that is gone, or does not match");
            }
            boolean near = Math.abs(answer.distances()[i] - truth[i]) < TOLERANCE;
            if (!near || Math.abs(distance(query.vector, row.vector) - truth[i]) > TOLERANCE) {
                return List.of(what + "rank " + i + " is not the nearest left");
            }
            if (query.with.length > 0 && !carries(answer.rows()[i], row)) {
                return List.of(what + "rank " + i + " carries something else");
            }
        }
        return List.of();
    }

    private static boolean passes(Row row) {
        return row.price != null && row.price < 50 && row.colour.equals("red");
    }

    private static boolean carries(AnswerRow found, Row row) {
        Map<String, Object> wanted = row.price == null ? Map.of() : Map.of("price", row.price);
        return found.attributes().equals(wanted)
                && java.util.Arrays.equals(found.payload(), row.payload);
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
}
