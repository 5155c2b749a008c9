package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.vstream.flink.kafka.TopicJob;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ClusterJobTest {

    private static final String JOB = TopicJob.json("127.0.0.1:1", 2, false, Path.of("/shared"));

    @Test
    void leavesTheFoldersOfThisMachineBehind() throws Exception {
        JobSettings job = ClusterJob.settings(with("\"state\": {\"path\": \"/here\"}"));
        assertThat(job.dataflow().stateFolder()).isNull();
        assertThat(job.checkpoint().path()).isEqualTo("/shared/checkpoints");
    }

    @Test
    void refusesWhatNeedsOneMachine() {
        assertThatThrownBy(() -> ClusterJob.settings(with("\"snapshot\": {\"path\": \"/s\"}")))
                .hasMessageStartingWith("snapshot: partitions of a cluster have no folder")
                .hasMessageContaining("take a savepoint instead");
        String file = "\"kind\": \"file\", \"path\": \"/v.jsonl\"";
        assertThatThrownBy(() -> ClusterJob.settings(JOB.replaceFirst("\"kind\": \"kafka\"", file)))
                .hasMessageStartingWith("vectors.kind: a job on a cluster reads topics");
        assertThatThrownBy(() -> ClusterJob.settings("{")).hasMessageStartingWith("The job is not");
        assertThatThrownBy(() -> ClusterJob.main(new String[] {"job.json"}))
                .hasMessage("Say which job to submit: --job FILE.");
    }

    private static String with(String field) {
        return JOB.replace("\"name\":", field + ", \"name\":");
    }
}
