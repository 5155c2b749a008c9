package io.vstream.flink.bench;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.EpochClock;
import io.vstream.flink.source.DatasetFile;
import io.vstream.flink.source.Gate;
import io.vstream.flink.source.GeneratorScript;
import io.vstream.flink.source.Mix;
import io.vstream.flink.source.Script;
import io.vstream.flink.source.ScriptSplit;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes the records of the benchmark job to its topics: rows first, then queries, inserts and
 * deletes 1:3:1, each at the moment when it is due whether or not the job keeps up.
 *
 * <p>A query's id is its number; it asks for row {@code number mod queries} of the query file.
 */
final class Load implements AutoCloseable {

    /** Most queries of a run. */
    static final int QUERIES_MAX = 1 << 22;

    /** Partitions of the topic of vectors. */
    static final int VECTOR_PARTITIONS = 4;

    private static final int QUERY_PARTITIONS = 2;
    private static final int K = 10;
    private static final long SEED = 42;

    /** What a producer of Kafka 4 does unless it is told otherwise. */
    private static final int LINGER_MILLIS = 5;

    private static final long NANOS = 1_000_000_000L;
    private static final long MICRO_NANOS = 1_000;
    private static final long MILLI_NANOS = 1_000_000;
    private static final long NAP_NANOS = 300_000;

    private final WriteLog log = new WriteLog(VECTOR_PARTITIONS);
    private final AtomicLongArray due = new AtomicLongArray(QUERIES_MAX);
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final Incoming record = new Incoming();
    private final KafkaProducer<byte[], byte[]> producer;
    private final Records rows;
    private final Records queries;
    private final int queryRows;
    private final Script.Player stream;
    private final Histogram acks = new ConcurrentHistogram(3);
    private volatile int asked;

    Load(String brokers, Options options, DatasetFile base, DatasetFile query) throws IOException {
        rows = new Records(base, options.json());
        queries = new Records(query, options.json());
        queryRows = query.rows();
        Gate open = Gate.install("bench");
        open.open(Integer.MAX_VALUE);
        stream =
                new GeneratorScript(
                                new GeneratorScript.Settings(
                                        options.data().resolve("base.fbin").toString(),
                                        options.data().resolve("query.fbin").toString(),
                                        options.preload(),
                                        -1,
                                        0,
                                        new Mix(1, 3, 1),
                                        0,
                                        0,
                                        0,
                                        K,
                                        SEED))
                        .play(ScriptSplit.START, open);
        producer =
                new KafkaProducer<>(
                        Map.of(
                                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG,
                                brokers,
                                ProducerConfig.LINGER_MS_CONFIG,
                                LINGER_MILLIS,
                                ProducerConfig.BATCH_SIZE_CONFIG,
                                64 << 10,
                                ProducerConfig.BUFFER_MEMORY_CONFIG,
                                64L << 20),
                        new ByteArraySerializer(),
                        new ByteArraySerializer());
    }

    /** The topics with their partitions. */
    static Map<String, Integer> topics() {
        return Map.of("vectors", VECTOR_PARTITIONS, "queries", QUERY_PARTITIONS, "answers", 2);
    }

    /** What was written. */
    WriteLog log() {
        return log;
    }

    /** Queries sent so far. */
    int asked() {
        return asked;
    }

    /** Microseconds from when records were due to when the broker had them; forgets them. */
    Histogram takeAcks() {
        Histogram taken = acks.copy();
        acks.reset();
        return taken;
    }

    /** When a query was due, nanoseconds since 1970. */
    long due(int query) {
        return due.get(query);
    }

    /** Row of the query file that a query asks for. */
    float[] vector(int query) {
        return queries.vector(query % queryRows);
    }

    /** Sends the next {@code count} records of the stream as fast as they are taken. */
    void burst(int count) throws Exception {
        for (int i = 0; i < count; i++) {
            next(EpochClock.nanos());
        }
    }

    /**
     * Sends records at a fixed rate for so long.
     *
     * @return how late the last record was sent, in seconds
     */
    double run(int perSecond, Duration time) throws Exception {
        long began = EpochClock.nanos();
        long count = perSecond * time.toMillis() / 1_000;
        long sent = 0;
        while (sent < count) {
            long elapsed = EpochClock.nanos() - began;
            // The first is due at once.
            long dueNow = Math.min(count, elapsed / MILLI_NANOS * perSecond / 1_000 + 1);
            if (sent >= dueNow) {
                LockSupport.parkNanos(NAP_NANOS);
            }
            for (; sent < dueNow; sent++) {
                next(began + sent * NANOS / perSecond);
            }
        }
        long end = began + count * NANOS / perSecond;
        await(end);
        return (double) (EpochClock.nanos() - end) / NANOS;
    }

    /** Asks for rows of the query file, and writes nothing. */
    void ask(int count, int perSecond) throws Exception {
        long began = EpochClock.nanos();
        for (int i = 0; i < count; i++) {
            long at = began + i * NANOS / perSecond;
            await(at);
            query(at);
        }
    }

    @Override
    public void close() throws Exception {
        producer.close(Duration.ZERO);
        stream.close();
    }

    private static void await(long at) {
        while (EpochClock.nanos() < at) {
            LockSupport.parkNanos(NAP_NANOS);
        }
    }

    private void next(long at) throws Exception {
        if (failure.get() != null) {
            throw failure.get();
        }
        stream.next(at, record);
        if (record.kind == Incoming.Kind.QUERY) {
            query(at);
            return;
        }
        int row = (int) record.id;
        boolean delete = record.kind == Incoming.Kind.DELETE;
        int partition = log.add(row, delete);
        byte[] value = delete ? null : rows.value("id", row, row);
        send("vectors", partition, at, rows.key(row), value);
    }

    private void query(long at) {
        int number = asked;
        due.set(number, at);
        byte[] value = queries.value("query_id", number, number % queryRows);
        send("queries", number % QUERY_PARTITIONS, at, queries.key(number), value);
        asked = number + 1;
    }

    private void send(String topic, int partition, long at, byte[] key, byte[] value) {
        producer.send(
                new ProducerRecord<>(topic, partition, at / MILLI_NANOS, key, value),
                (sent, e) -> {
                    acks.recordValue((EpochClock.nanos() - at) / MICRO_NANOS);
                    if (e != null) {
                        failure.compareAndSet(null, e);
                    }
                });
    }
}
