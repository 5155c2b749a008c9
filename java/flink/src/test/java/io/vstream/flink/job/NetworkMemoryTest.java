package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NetworkMemoryTest {

    private static final long GIB = 1L << 30;

    @TempDir private Path folder;

    @Test
    void aFewPartitionsHaveWhatTheyAlwaysHad() throws Exception {
        assertThat(NetworkMemory.of(graph(2), GIB)).isEqualTo(NetworkMemory.LEAST);
        assertThat(NetworkMemory.of(graph(26), GIB)).isEqualTo(NetworkMemory.LEAST);
        assertThat(NetworkMemory.of(graph(1), GIB / 4)).isEqualTo(NetworkMemory.LEAST);
    }

    @Test
    void manyGetABufferForEachPairOfTasks() throws Exception {
        // Place, route and search send to all of the next step, in buffers of 32 KiB.
        long pairs = 3 * 40 * 41;
        assertThat(NetworkMemory.of(graph(40), GIB).getBytes())
                .isBetween(pairs * (32 << 10), pairs * (32 << 10) * 3 / 2);
    }

    @Test
    void tooManyForTheProcessAreRefusedWithASentence() throws Exception {
        JobGraph job = graph(128);
        assertThatThrownBy(() -> NetworkMemory.of(job, GIB))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("parallelism: a job of 128 subtasks in a step needs ")
                .hasMessageContaining("and this one may have 1024 MiB")
                .hasMessageContaining("-XX:MaxDirectMemorySize in VSTREAM_JAVA_OPTS");
        assertThat(NetworkMemory.of(job, 3 * GIB)).isGreaterThan(new MemorySize(GIB));
    }

    private JobGraph graph(int parallelism) throws Exception {
        Path lines = Files.writeString(folder.resolve("lines.jsonl"), "");
        JobSettings job =
                JobSettings.fromJson(
                        """
                        {"parallelism": %d,
                         "collection": {"dimension": 2, "metric": "l2", "element": "f32",
                                        "index": "flat", "seed": 7, "encoder": {"kind": "id"}},
                         "vectors": {"kind": "file", "path": "%s"},
                         "queries": {"kind": "file", "path": "%s", "k": 5},
                         "results": {"kind": "blackhole"}}
                        """
                                .formatted(parallelism, lines, lines));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
        VStreamJob.add(env, job, "");
        return LocalCluster.graph(env, "graph");
    }
}
