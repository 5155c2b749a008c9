package io.vstream.flink.job;

import io.vstream.flink.dataflow.SearchDataflow;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/** What tests of jobs over topics share: the job, the clients of its broker, and vectors. */
final class TopicsFixture {

    /** The topic of answers; it has one partition. */
    private static final String ANSWERS = "answers";

    private TopicsFixture() {}

    /** The program of a job file whose topics exist. */
    static StreamExecutionEnvironment program(String json) throws Exception {
        JobSettings job = JobSettings.fromJson(json);
        Sources.checkBrokers(job);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
        VStreamJob.addSink(
                job,
                SearchDataflow.add(env, job.dataflow(), Sources.add(env, job, "", false))
                        .answers());
        return env;
    }

    static <T> KafkaProducer<T, T> producer(String brokers, Serializer<T> as) {
        return new KafkaProducer<>(
                Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers), as, as);
    }

    /** Reads all answers from the first one on. */
    static <T> KafkaConsumer<T, T> answers(String brokers, Deserializer<T> as) {
        KafkaConsumer<T, T> consumer =
                new KafkaConsumer<>(
                        Map.of(
                                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG,
                                brokers,
                                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG,
                                "earliest"),
                        as,
                        as);
        consumer.assign(List.of(new TopicPartition(ANSWERS, 0)));
        return consumer;
    }

    /** Squared, and exact enough to order by. */
    static double distance(float[] one, float[] other) {
        double sum = 0;
        for (int i = 0; i < one.length; i++) {
            sum += ((double) one[i] - other[i]) * ((double) one[i] - other[i]);
        }
        return sum;
    }

    static float[] vector(SplittableRandom random, int dimension) {
        float[] vector = new float[dimension];
        for (int i = 0; i < dimension; i++) {
            vector[i] = (float) random.nextDouble();
        }
        return vector;
    }

    static ArrayNode array(float[] vector) {
        ArrayNode array = JsonNodeFactory.instance.arrayNode();
        for (float value : vector) {
            array.add(value);
        }
        return array;
    }
}
