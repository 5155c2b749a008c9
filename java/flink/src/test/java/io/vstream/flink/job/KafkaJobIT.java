package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.dataflow.SearchDataflow;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.kafka.Shape;
import io.vstream.flink.kafka.TopicJob;
import io.vstream.flink.kafka.Traffic;
import io.vstream.flink.metrics.Names;
import java.nio.file.Path;
import java.time.Duration;
import org.apache.flink.api.common.JobID;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The job between topics of a real broker. */
class KafkaJobIT {

    private static final long SEED = 20_251_122;
    private static final int VECTORS = 24_000;
    private static final int PER_SECOND = 4_000;

    @TempDir private static Path shared;
    private static KafkaBroker broker;

    @TempDir private Path folder;

    @BeforeAll
    static void start() throws Exception {
        broker = KafkaBroker.start(shared.resolve("broker"));
        broker.create(Traffic.topics("exists"));
    }

    @AfterAll
    static void stop() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    @Test
    void aFailureInTheMiddleLosesNothingAndAnswersOnce() throws Exception {
        try (Traffic traffic = run("exactly", json(), false)) {
            assertThat(traffic.findings()).as("seed %d", SEED).isEmpty();
            assertThat(traffic.duplicates() + traffic.ghosts() + traffic.lost()).isZero();
            assertThat(traffic.unanswered()).isZero();
            assertThat(traffic.recall().answers()).isGreaterThan(200);
        }
    }

    @Test
    void anAnswerThatIsSentAgainAndARowThatIsNotDeletedAreNoticed() throws Exception {
        String careless =
                json().replace("exactly-once", "at-least-once")
                        .replace("\"audit-share\"", "\"faults\": {\"drop-delete\": true}, \"x\"");
        try (Traffic traffic = run("careless", TopicJob.carrying(careless), true)) {
            assertThat(traffic.duplicates()).isPositive();
            assertThat(traffic.ghosts()).isPositive();
            assertThat(traffic.unanswered()).isZero();
        }
    }

    /** Runs a job through a failure until all queries are answered. */
    private Traffic run(String run, String json, boolean carrying) throws Exception {
        broker.create(Traffic.topics(run));
        JobSettings job = settings(json.replace("\"topic\": \"", "\"topic\": \"" + run + "-"));
        String name = folder.toString();
        Sources.checkBrokers(job);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
        SearchDataflow.Inputs topics = Sources.add(env, job, name, true);
        var vectors =
                topics.vectors()
                        .map(new FailOnce(name, VECTORS / 4))
                        .returns(Incoming.TYPE)
                        .setParallelism(2)
                        .uid("fail-once");
        VStreamJob.addSink(
                job,
                SearchDataflow.add(
                                env,
                                job.dataflow(),
                                new SearchDataflow.Inputs(vectors, topics.queries()))
                        .answers());
        Traffic traffic = new Traffic(Shape.SMALL, broker.address(), run, SEED, false, carrying);
        try (LocalCluster cluster = new LocalCluster(2, 1)) {
            JobID id = cluster.submit(env, name);
            traffic.warmUp(Duration.ofSeconds(60));
            traffic.write(
                    PER_SECOND,
                    written ->
                            written >= VECTORS
                                    && (FailOnce.failed(name) || written > 10 * VECTORS));
            traffic.write(PER_SECOND, written -> written % VECTORS == 0);
            traffic.settle(Duration.ofSeconds(60));
            assertThat(FailOnce.failed(name)).as("the job failed in the middle").isTrue();
            assertThat(cluster.metrics().sums(Names.BAD).values().stream().mapToLong(n -> n).sum())
                    .isEqualTo(traffic.bad());
            cluster.cancel(id);
        }
        return traffic;
    }

    @Test
    void refusesTopicsAndTransactionsThatTheBrokerDoesNotHave() {
        assertThatThrownBy(
                        () ->
                                Sources.checkBrokers(
                                        settings(existing().replace("exists-answers", "absent"))))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "results.topic: the brokers at %s have no topic 'absent'. Create it, or"
                                + " correct the name.",
                        broker.address());
        assertThatThrownBy(
                        () ->
                                Sources.checkBrokers(
                                        settings(existing().replace("600000", "900001"))))
                .hasMessage(
                        "results.transaction-timeout: 900001 ms is more than the 900000 ms that"
                                + " the brokers at %s allow. Make it shorter, or raise their"
                                + " transaction.max.timeout.ms.",
                        broker.address());
    }

    private String existing() {
        return json().replace("\"topic\": \"", "\"topic\": \"exists-");
    }

    private String json() {
        return TopicJob.json(broker.address(), 2, false, folder);
    }

    private static JobSettings settings(String json) {
        return JobSettings.fromJson(json);
    }
}
