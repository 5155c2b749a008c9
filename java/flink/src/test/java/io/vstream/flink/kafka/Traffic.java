package io.vstream.flink.kafka;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongPredicate;
import java.util.stream.IntStream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes what a {@link Ledger} says to the topics of a job, and holds every committed answer to it.
 * One thread writes and one reads; the caller may do something else meanwhile.
 */
public final class Traffic implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int VECTOR_PARTITIONS = 4;
    private static final int QUERY_PARTITIONS = 2;
    private static final int ANSWER_PARTITIONS = 2;
    private static final int BAD_EVERY = 997;
    private static final int BATCH = 20;
    private static final int PROBES = 8;
    private static final long MOVED_MILLIS = 3_000;
    private static final long SECOND_NANOS = 1_000_000_000L;

    private final Shape shape;
    private final String run;
    private final Ledger ledger;
    private final boolean raw;
    private final boolean carrying;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final Map<Long, float[]> asked = new ConcurrentHashMap<>();
    private final Thread reader;
    private volatile boolean reading = true;
    private volatile long covered = -1;
    private volatile long bad;

    /**
     * Begins to read answers.
     *
     * @param shape of what is written
     * @param run see {@link #topics}
     * @param raw true to write raw floats, false to write JSON
     */
    public Traffic(Shape shape, String brokers, String run, long seed, boolean raw) {
        this(shape, brokers, run, seed, raw, false);
    }

    /**
     * As above.
     *
     * @param carrying true to write texts as ids, attributes and payloads, and to filter by them,
     *     in JSON: {@link TopicJob#carrying}
     */
    public Traffic(
            Shape shape, String brokers, String run, long seed, boolean raw, boolean carrying) {
        this.shape = shape;
        this.run = run;
        this.ledger = new Ledger(shape, seed, VECTOR_PARTITIONS, carrying);
        this.raw = raw && !carrying;
        this.carrying = carrying;
        producer =
                new KafkaProducer<>(
                        Map.of(
                                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers,
                                ProducerConfig.LINGER_MS_CONFIG, 5,
                                ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 600_000,
                                ProducerConfig.MAX_BLOCK_MS_CONFIG, 600_000),
                        new ByteArraySerializer(),
                        new ByteArraySerializer());
        consumer =
                new KafkaConsumer<>(
                        Map.of(
                                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers,
                                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
                        new ByteArrayDeserializer(),
                        new ByteArrayDeserializer());
        consumer.assign(
                IntStream.range(0, ANSWER_PARTITIONS)
                        .mapToObj(i -> new TopicPartition(run + "-answers", i))
                        .toList());
        reader = new Thread(this::read, "answers");
        reader.setDaemon(true);
        reader.start();
    }

    /** The topics of a job, with their partitions. */
    public static Map<String, Integer> topics(String run) {
        return Map.of(
                run + "-vectors", VECTOR_PARTITIONS,
                run + "-queries", QUERY_PARTITIONS,
                run + "-answers", ANSWER_PARTITIONS);
    }

    /** Records written that are none. */
    public long bad() {
        return bad;
    }

    /** Vector records and queries written. */
    public long records() {
        return ledger.writes() + ledger.queries();
    }

    /** Queries without an answer so far. */
    public long unanswered() {
        return ledger.unanswered();
    }

    /** Rows that answers lack. */
    public long lost() {
        return ledger.lostRows();
    }

    /** Answers beyond the first to a query. */
    public long duplicates() {
        return ledger.duplicates();
    }

    /** Rows that answers must not hold. */
    public long ghosts() {
        return ledger.ghosts();
    }

    /** Rows that must be there if everything that was written is applied. */
    public int rows() {
        return ledger.rows();
    }

    /** What approximate answers found. */
    public Recall.Summary recall() {
        return ledger.recall();
    }

    /** Answers that lack a partition, windows with too little recall, and findings in words. */
    public List<String> findings() {
        List<String> findings = new ArrayList<>(ledger.wrong());
        Recall.Summary recall = ledger.recall();
        if (recall.least() < Shape.TARGET - Shape.SLACK) {
            findings.add("In some window recall is below the target: " + recall);
        }
        if (ledger.partial() > 0) {
            findings.add(ledger.partial() + " answers are partial");
        }
        return findings;
    }

    /**
     * Writes enough vectors for the first template and waits until rows stand where it says. From
     * then on no answer may lack a row.
     */
    public void warmUp(Duration patience) throws Exception {
        while (ledger.writes() < shape.load()) {
            vector();
        }
        settle(patience);
        Thread.sleep(MOVED_MILLIS);
        ledger.strict();
    }

    /**
     * Writes vectors, with a query now and then, until {@code enough} of the number of vectors says
     * so.
     *
     * @param perSecond vectors per second
     */
    public void write(int perSecond, LongPredicate enough) throws Exception {
        long began = System.nanoTime();
        long first = ledger.writes();
        while (!enough.test(ledger.writes())) {
            complain();
            for (int i = 0; i < BATCH; i++) {
                vector();
            }
            long due = began + (ledger.writes() - first) * SECOND_NANOS / perSecond;
            long ahead = due - System.nanoTime();
            if (ahead > 0) {
                Thread.sleep(ahead / 1_000_000, (int) (ahead % 1_000_000));
            }
        }
    }

    /**
     * Asks until an answer has everything behind it that was written, and all queries are answered.
     */
    public void settle(Duration patience) throws Exception {
        long end = System.nanoTime() + patience.toNanos();
        long probed = end;
        while (covered < ledger.writes() || ledger.unanswered() > 0) {
            complain();
            if (System.nanoTime() > end) {
                throw new AssertionError(
                        ledger.unanswered()
                                + " of "
                                + ledger.queries()
                                + " queries are not answered within "
                                + patience
                                + ", and answers cover "
                                + covered
                                + " of "
                                + ledger.writes()
                                + " writes; "
                                + findings());
            }
            boolean waited = probed == end || System.nanoTime() - probed > SECOND_NANOS;
            if (covered < ledger.writes() && waited) {
                probed = System.nanoTime();
                for (int i = 0; i < PROBES; i++) {
                    query();
                }
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void close() throws Exception {
        reading = false;
        reader.join();
        producer.close(Duration.ZERO);
        consumer.close();
    }

    private void vector() {
        Ledger.Written written = ledger.write();
        byte[] key = raw ? id(written.id()) : utf8(name(written.id()));
        byte[] value = value(written);
        send("vectors", written.partition(), key, value, written);
        if (written.number() % shape.queryEvery() == 0) {
            query();
        }
        if (written.number() % BAD_EVERY == 0) {
            bad++;
            producer.send(
                    new ProducerRecord<>(
                            run + "-vectors", ledger.writeBad(), utf8("no id"), utf8("no vector")));
        }
    }

    private String name(long id) {
        return carrying ? "row-" + id : Long.toString(id);
    }

    /** Half of the deletes of a JSON topic are tombstones. */
    private byte[] value(Ledger.Written written) {
        boolean delete = written.vector() == null && !written.update();
        if (raw) {
            return delete ? null : floats(written.vector());
        }
        String id = carrying ? '"' + name(written.id()) + '"' : Long.toString(written.id());
        if (delete) {
            return written.number() % 2 == 0 ? null : utf8("{\"id\":" + id + ",\"op\":\"delete\"}");
        }
        String carried =
                carrying
                        ? ",\"attributes\":{\"lot\":%d},\"payload\":{\"n\":%d}"
                                .formatted(Ledger.lot(written.number()), written.number())
                        : "";
        String what =
                written.update()
                        ? ",\"op\":\"update\""
                        : ",\"vector\":" + Arrays.toString(written.vector());
        return utf8("{\"id\":" + id + what + carried + "}");
    }

    private void query() {
        long query = ledger.query();
        float[] vector = ledger.queryVector(query);
        String line =
                "{\"query_id\":"
                        + query
                        + (Ledger.exact(query) ? ",\"effort\":\"exact\",\"k\":" : ",\"k\":")
                        + Ledger.k(query)
                        + asks(query)
                        + ",\"vector\":"
                        + Arrays.toString(vector)
                        + "}";
        asked.put(query, vector);
        send(
                "queries",
                (int) (query % QUERY_PARTITIONS),
                utf8(Long.toString(query)),
                utf8(line),
                null);
    }

    private String asks(long query) {
        int lot = ledger.lotOf(query);
        String filter =
                ",\"filter\":{\"must\":[{\"key\":\"lot\",\"match\":{\"value\":%d}}]}"
                        .formatted(lot);
        return (carrying ? ",\"with\":[\"lot\",\"payload\"]" : "") + (lot < 0 ? "" : filter);
    }

    /**
     * @param written null for a query
     */
    private void send(
            String topic, int partition, byte[] key, byte[] value, Ledger.Written written) {
        Long time = written == null ? null : written.time();
        producer.send(
                new ProducerRecord<>(run + "-" + topic, partition, time, key, value),
                (sent, e) -> {
                    if (e != null) {
                        failure.compareAndSet(null, e);
                    } else if (written != null && sent.offset() != written.offset()) {
                        failure.compareAndSet(
                                null,
                                new AssertionError(
                                        "The ledger has offset "
                                                + written.offset()
                                                + " for "
                                                + sent
                                                + ": its own records are out of step."));
                    }
                });
    }

    private void read() {
        try {
            while (reading) {
                for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(100))) {
                    check(JSON.readTree(record.value()));
                }
            }
        } catch (IOException | RuntimeException e) {
            failure.compareAndSet(null, e);
        }
    }

    private void check(JsonNode answer) {
        long query = answer.path("query_id").asLong();
        ledger.check(answer, asked.get(query));
        covered = Math.max(covered, ledger.covered(answer));
    }

    private void complain() {
        Throwable e = failure.get();
        if (e != null) {
            throw new AssertionError("Writing or reading a topic failed.", e);
        }
    }

    private static byte[] id(long id) {
        return ByteBuffer.allocate(Long.BYTES).putLong(id).array();
    }

    private static byte[] floats(float[] vector) {
        ByteBuffer bytes =
                ByteBuffer.allocate(vector.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asFloatBuffer().put(vector);
        return bytes.array();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
