package io.vstream.flink.bench;

import io.vstream.flink.metrics.EpochClock;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.IntStream;
import org.HdrHistogram.Histogram;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads the answers in a thread of its own. The key of an answer is all that is read of it, but for
 * one in {@link #SAMPLE_EVERY} and the last of each fetch.
 */
final class Answers implements AutoCloseable {

    /** Answers of which one is kept for its recall. */
    static final int SAMPLE_EVERY = 61;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long MICRO_NANOS = 1_000;

    private final Load load;
    private final AtomicIntegerArray micros = new AtomicIntegerArray(Load.QUERIES_MAX);
    private final ConcurrentLinkedQueue<Sample> samples = new ConcurrentLinkedQueue<>();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread = new Thread(this::read, "answers");
    private volatile boolean reading = true;
    private volatile long covered;
    private volatile int answered;
    private volatile boolean keepAll;
    private volatile RuntimeException failure;

    /**
     * An answer that is kept.
     *
     * @param frontier next offset by partition of the vectors that it is known to have seen
     * @param until writes that it can have seen at most
     */
    record Sample(int query, long[] ids, long[] frontier, int until) {}

    Answers(String brokers, Load load) {
        this.load = load;
        consumer =
                new KafkaConsumer<>(
                        Map.of(
                                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG,
                                brokers,
                                ConsumerConfig.ISOLATION_LEVEL_CONFIG,
                                "read_committed",
                                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG,
                                "earliest",
                                ConsumerConfig.FETCH_MIN_BYTES_CONFIG,
                                1),
                        new ByteArrayDeserializer(),
                        new ByteArrayDeserializer());
        int partitions = Load.topics().get("answers");
        consumer.assign(
                IntStream.range(0, partitions)
                        .mapToObj(i -> new TopicPartition("answers", i))
                        .toList());
        thread.setDaemon(true);
        thread.start();
    }

    /** Writes that the newest answers have behind them. */
    long covered() {
        complain();
        return covered;
    }

    /** Queries answered, each counted once. */
    int answered() {
        complain();
        return answered;
    }

    /** Keeps every answer from now on, or one in {@link #SAMPLE_EVERY}. */
    void keepAll(boolean all) {
        keepAll = all;
    }

    /** The kept answers to queries from {@code first} on, before {@code end}. */
    List<Sample> samples(int first, int end) {
        return samples.stream()
                .filter(sample -> sample.query >= first && sample.query < end)
                .toList();
    }

    /** Milliseconds from the moment a query was due to its answer, of those that have one. */
    Histogram latency(int first, int end) {
        Histogram histogram = new Histogram(3);
        for (int query = first; query < end; query++) {
            if (micros.get(query) > 0) {
                histogram.recordValue(micros.get(query));
            }
        }
        return histogram;
    }

    @Override
    public void close() throws Exception {
        reading = false;
        thread.join();
        consumer.close();
    }

    private void complain() {
        if (failure != null) {
            throw failure;
        }
    }

    private void read() {
        try {
            while (reading) {
                ConsumerRecord<byte[], byte[]> last = null;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    take(record, EpochClock.nanos());
                    last = record;
                }
                if (last != null) {
                    covered = Math.max(covered, sum(frontier(JSON.readTree(last.value()))));
                }
            }
        } catch (Exception e) {
            failure = new IllegalStateException("Reading answers failed.", e);
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record, long now) throws Exception {
        int query = Integer.parseInt(new String(record.key(), StandardCharsets.UTF_8));
        if (micros.get(query) == 0) {
            micros.set(query, (int) Math.max(1, (now - load.due(query)) / MICRO_NANOS));
            answered++;
        }
        if (keepAll || query % SAMPLE_EVERY == 0) {
            JsonNode answer = JSON.readTree(record.value());
            JsonNode results = answer.path("results");
            long[] ids = new long[results.size()];
            for (int i = 0; i < ids.length; i++) {
                ids[i] = results.path(i).path("id").asLong();
            }
            samples.add(new Sample(query, ids, frontier(answer), load.log().size()));
        }
    }

    private static long[] frontier(JsonNode answer) {
        long[] frontier = new long[Load.VECTOR_PARTITIONS];
        for (int i = 0; i < frontier.length; i++) {
            frontier[i] = answer.path("offsets").path(Integer.toString(i)).asLong();
        }
        return frontier;
    }

    private static long sum(long[] frontier) {
        long sum = 0;
        for (long offset : frontier) {
            sum += offset;
        }
        return sum;
    }
}
