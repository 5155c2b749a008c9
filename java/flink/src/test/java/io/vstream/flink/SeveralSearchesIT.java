package io.vstream.flink;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.merge.Answer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.AllWindowFunction;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A program with two collections, whose answers it keeps in state of its own. */
@Timeout(180)
class SeveralSearchesIT {

    private static final int DIMENSION = 64;
    private static final int ROWS = 2_000;
    private static final int K = 5;
    private static final long SEED = 20_260_501;

    @TempDir private Path folder;

    /**
     * Answers of both collections are joined by query in keyed state, wait for an asynchronous
     * call, and are counted in windows; the program fails once and goes on from a checkpoint.
     */
    @Test
    void answersOfTwoCollectionsAreJoinedAcrossAFailure() throws Exception {
        StreamExecutionEnvironment env = environment();
        DataStream<Answer> images = search(env, "images", 1).results();
        DataStream<Answer> texts = search(env, "texts", 2).results();
        images.windowAll(TumblingProcessingTimeWindows.of(Duration.ofMillis(300)))
                .apply(new Counting())
                .sinkTo(new DiscardingSink<>());
        DataStream<Answer> later =
                AsyncDataStream.unorderedWait(texts, new Waiting(), 10, TimeUnit.SECONDS);
        DataStream<Answer> pairs =
                images.keyBy(answer -> answer.ticket().queryId(), Types.LONG)
                        .connect(later.keyBy(answer -> answer.ticket().queryId(), Types.LONG))
                        .process(new Pairing())
                        .returns(TypeInformation.of(Answer.class))
                        .map(new FailAfterCheckpoint(UUID.randomUUID().toString()))
                        .returns(TypeInformation.of(Answer.class));
        int both = 0;
        try (CloseableIterator<Answer> found = pairs.executeAndCollect()) {
            while (both < 2) {
                Answer image = found.next();
                Answer text = found.next();
                assertThat(image.ticket().queryId()).isEqualTo(text.ticket().queryId());
                if (whole(image) && whole(text)) {
                    assertThat(image.ids()).containsExactly(nearest(1, image.ticket().queryId()));
                    assertThat(text.ids()).containsExactly(nearest(2, text.ticket().queryId()));
                    both++;
                }
            }
        }
        assertThat(FailAfterCheckpoint.failures()).isPositive();
    }

    @Test
    void settingsOfTheProgramStayAsTheyAre() {
        StreamExecutionEnvironment env = environment();
        env.setBufferTimeout(77);
        DataStream<Answer> answers = search(env, "images", 1).results();
        answers.map(answer -> answer)
                .returns(TypeInformation.of(Answer.class))
                .name("mine")
                .sinkTo(new DiscardingSink<>());
        assertThat(env.getParallelism()).isEqualTo(2);
        assertThat(env.getMaxParallelism()).isEqualTo(-1);
        assertThat(env.getBufferTimeout()).isEqualTo(77);
        for (StreamNode node : env.getStreamGraph(false).getStreamNodes()) {
            if (node.getOperatorName().equals("mine")) {
                assertThat(node.getMaxParallelism()).isEqualTo(-1);
                assertThat(node.getBufferTimeout()).isEqualTo(77);
            }
            if (node.getOperatorName().equals("images-search")) {
                assertThat(node.getMaxParallelism()).isEqualTo(128);
                assertThat(node.getTransformationUID()).isEqualTo("images-search");
            }
        }
    }

    @Test
    void aNameIsGivenOnce() {
        StreamExecutionEnvironment env = environment();
        search(env, "images", 1);
        assertThatThrownBy(() -> search(env, "images", 2))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("already has a search with the name 'images'");
        assertThatThrownBy(() -> search(env, "Images", 2))
                .hasMessageContaining("'Images' is no name of a search");
    }

    /** The uid of a step is the name of its search, a hyphen and the name of the step. */
    @Test
    void aNameWhoseStepsWouldHaveUidsOfAnotherIsRefused() {
        StreamExecutionEnvironment env = environment();
        search(env, "images", 1);
        assertThatThrownBy(() -> search(env, "images-decode", 2))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("'images-decode'")
                .hasMessageContaining("the uid 'images-decode-queries'");
        StreamExecutionEnvironment other = environment();
        search(other, "images-decode", 1);
        assertThatThrownBy(() -> search(other, "images", 2))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("the uid 'images-decode-queries'");
        search(other, "images-search", 2);
    }

    private static VectorSearch search(StreamExecutionEnvironment env, String name, int salt) {
        DataStream<VectorChange> rows =
                env.fromSequence(0, ROWS - 1)
                        .setParallelism(1)
                        .map(id -> VectorChange.upsert(id, vector(salt, id)))
                        .returns(VectorChange.TYPE)
                        .setParallelism(1)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<VectorChange>forMonotonousTimestamps()
                                        .withTimestampAssigner((change, at) -> change.id()))
                        .setParallelism(1);
        DataStream<VectorQuery> questions =
                env.fromSequence(0, Long.MAX_VALUE)
                        .setParallelism(1)
                        .map(
                                number -> {
                                    Thread.sleep(5);
                                    return VectorQuery.of(number, vector(0, number))
                                            .withExactAnswer();
                                })
                        .returns(VectorQuery.TYPE)
                        .setParallelism(1);
        return VectorSearch.collection(DIMENSION, Metric.L2)
                .name(name)
                .vectors(rows)
                .queries(questions)
                .k(K)
                .trainingSample(500 + ROWS)
                .partitions(2)
                .build();
    }

    private StreamExecutionEnvironment environment() {
        Configuration flink = VectorSearch.flinkSettings();
        flink.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(200));
        flink.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        flink.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 2);
        flink.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(10));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(flink);
        env.setParallelism(2);
        return env;
    }

    private static boolean whole(Answer answer) {
        return !answer.partial() && answer.frontier().watermark() == Long.MAX_VALUE;
    }

    private static float[] vector(int salt, long id) {
        SplittableRandom random = new SplittableRandom(SEED + salt * 1_000_003L + id);
        float[] vector = new float[DIMENSION];
        for (int i = 0; i < DIMENSION; i++) {
            vector[i] = (float) random.nextDouble(-1, 1);
        }
        return vector;
    }

    private static long[] nearest(int salt, long query) {
        float[] asked = vector(0, query);
        List<Long> ids =
                LongStream.range(0, ROWS)
                        .boxed()
                        .sorted(
                                (a, b) ->
                                        Double.compare(
                                                distance(asked, vector(salt, a)),
                                                distance(asked, vector(salt, b))))
                        .toList();
        return Arrays.copyOf(ids.stream().mapToLong(id -> id).toArray(), K);
    }

    private static double distance(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += ((double) a[i] - b[i]) * ((double) a[i] - b[i]);
        }
        return sum;
    }

    /** A call that takes a while: answers wait in the state of the step meanwhile. */
    private static final class Waiting implements AsyncFunction<Answer, Answer> {
        private static final long serialVersionUID = 1L;

        @Override
        public void asyncInvoke(Answer answer, ResultFuture<Answer> result) {
            CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS)
                    .execute(() -> complete(answer, result));
        }

        private static void complete(Answer answer, ResultFuture<Answer> result) {
            try {
                result.complete(List.of(answer));
            } catch (RejectedExecutionException e) {
                // The task has ended meanwhile.
            }
        }
    }

    private static final class Counting implements AllWindowFunction<Answer, Long, TimeWindow> {
        private static final long serialVersionUID = 1L;

        @Override
        public void apply(TimeWindow window, Iterable<Answer> answers, Collector<Long> out) {
            long count = 0;
            for (Answer answer : answers) {
                count += answer.ids().length;
            }
            out.collect(count);
        }
    }
}
