package io.vstream.flink.kafka;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.row.Schema;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Adds Kafka topics to a dataflow, as sources of records and as the sink of answers. */
public final class Topics {

    /** How often event time may move on. */
    private static final Duration WATERMARK_EVERY = Duration.ofMillis(100);

    /**
     * Vectors are fetched when so many bytes are there, or after {@link #FETCH_WAIT_MILLIS}: asking
     * for each few records took as much of a processor as searching them does. At 6,000 records/s
     * of a 1:3:1 stream the broker's share fell from 0.38 to 0.27 of a core and the fetchers' from
     * 0.14 to 0.07. A query is fetched at once.
     */
    private static final String FETCH_BYTES = "65536";

    /** How much later a vector may be found for it. */
    private static final String FETCH_WAIT_MILLIS = "20";

    private Topics() {}

    /**
     * Adds a source; its uid is {@code name}.
     *
     * @param queries true for queries, false for vector records
     * @param k neighbours of a query that does not say
     * @param rows what rows of the collection carry
     */
    public static SingleOutputStreamOperator<Incoming> source(
            StreamExecutionEnvironment env,
            KafkaInput input,
            boolean queries,
            int k,
            Schema rows,
            String name) {
        boolean checkpoints = env.getCheckpointConfig().isCheckpointingEnabled();
        KafkaSource<Incoming> source =
                KafkaSource.<Incoming>builder()
                        .setProperties(properties(input, queries, checkpoints))
                        .setBootstrapServers(input.brokers())
                        .setTopics(input.topic())
                        .setGroupId(input.group())
                        .setClientIdPrefix(input.group() + "-" + name)
                        .setStartingOffsets(start(input.start()))
                        .setDeserializer(new RecordReader(input, queries, k, rows))
                        .build();
        env.getConfig().setAutoWatermarkInterval(WATERMARK_EVERY.toMillis());
        WatermarkStrategy<Incoming> time =
                WatermarkStrategy.<Incoming>forBoundedOutOfOrderness(
                                Duration.ofMillis(input.outOfOrdernessMillis()))
                        .withIdleness(Duration.ofMillis(input.idleAfterMillis()));
        return env.fromSource(source, time, name, Incoming.TYPE).uid(name);
    }

    /** Properties of a source's client. */
    static Properties properties(KafkaInput input, boolean queries, boolean checkpoints) {
        Properties properties = new Properties();
        // Answers of an aborted transaction of whoever writes the topic must not be indexed.
        properties.setProperty(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        if (!queries) {
            properties.setProperty(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, FETCH_BYTES);
            properties.setProperty(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, FETCH_WAIT_MILLIS);
        }
        if (input.start() == KafkaInput.Start.COMMITTED && !checkpoints) {
            // Offsets are committed when a checkpoint completes. Where none ever does, the client
            // commits them, or each start would begin with the oldest record.
            properties.setProperty(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "true");
        }
        properties.putAll(input.properties());
        return properties;
    }

    /**
     * Adds the sink; its uid is {@code kafka}.
     *
     * @param rows schema of the collection
     */
    public static void sink(DataStream<Answer> answers, KafkaOutput output, Schema rows) {
        KafkaSinkBuilder<Answer> sink =
                KafkaSink.<Answer>builder()
                        .setBootstrapServers(output.brokers())
                        .setRecordSerializer(new AnswerWriter(output, rows));
        for (Map.Entry<String, String> property : output.properties().entrySet()) {
            sink.setProperty(property.getKey(), property.getValue());
        }
        if (output.exactlyOnce()) {
            sink.setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                    .setTransactionalIdPrefix(output.transactionalIdPrefix())
                    .setProperty(
                            ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
                            Long.toString(output.transactionTimeoutMillis()));
        } else {
            sink.setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE);
        }
        answers.sinkTo(sink.build())
                .setParallelism(answers.getParallelism())
                .name("kafka")
                .uid("kafka");
    }

    private static OffsetsInitializer start(KafkaInput.Start start) {
        return switch (start) {
            case EARLIEST -> OffsetsInitializer.earliest();
            case LATEST -> OffsetsInitializer.latest();
            case COMMITTED -> OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST);
        };
    }
}
