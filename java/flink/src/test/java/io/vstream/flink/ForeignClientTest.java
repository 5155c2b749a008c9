package io.vstream.flink;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.nativecore.NativeLibrary;
import java.util.List;
import java.util.stream.StreamSupport;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A program that is built where there is no native library, to run where there is one. */
class ForeignClientTest {

    private final String system = System.getProperty("os.name");

    @BeforeEach
    void leaveLinux() {
        System.setProperty("os.name", "Mac OS X");
    }

    @AfterEach
    void comeBack() {
        System.setProperty("os.name", system);
    }

    @Test
    void buildsTheSameStepsWithoutTheLibrary() {
        assertThat(NativeLibrary.available()).isFalse();
        List<String> there = steps();
        comeBack();
        assertThat(NativeLibrary.available()).isTrue();
        assertThat(there).isEqualTo(steps()).contains("train", "place", "search");
    }

    @Test
    void whatIsNoCollectionIsRefusedEvenSo() {
        assertThatThrownBy(() -> VectorSearch.collection("[1]").memory(1 << 20))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("no JSON object");
    }

    private static List<String> steps() {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(VectorSearch.flinkSettings());
        env.setParallelism(2);
        VectorSearch.collection(64, Metric.COSINE)
                .memory(1 << 24)
                .vectors(env.fromData(VectorChange.delete(1)))
                .queries(env.fromData(VectorQuery.of(1, new float[64])))
                .build()
                .results()
                .sinkTo(new DiscardingSink<>());
        JobGraph graph = env.getStreamGraph().getJobGraph();
        return StreamSupport.stream(graph.getVertices().spliterator(), false)
                .map(JobVertex::getName)
                .toList();
    }
}
