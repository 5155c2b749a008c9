package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.junit.jupiter.api.Test;

class FileSystemsTest {

    @Test
    void theEnvironmentSaysWhereTheStoreIsAndCredentialsStayThere() {
        Configuration settings =
                FileSystems.s3(
                        Map.of(
                                "AWS_ENDPOINT_URL", "https://store.example:9000",
                                "AWS_REGION", "eu-1",
                                "AWS_ACCESS_KEY_ID", "the-key",
                                "AWS_SECRET_ACCESS_KEY", "the-secret"));
        assertThat(settings.toMap())
                .containsExactlyInAnyOrderEntriesOf(
                        Map.of(
                                "s3.endpoint", "https://store.example:9000",
                                "s3.path.style.access", "true",
                                "s3.endpoint.region", "eu-1"));
        assertThat(FileSystems.s3(Map.of()).toMap()).isEmpty();
        assertThat(FileSystems.s3(Map.of("AWS_ENDPOINT_URL", "http://127.0.0.1:1")).toMap())
                .containsEntry("s3.endpoint", "http://127.0.0.1:1");
    }

    @Test
    void anEndpointThatIsNotEncryptedIsOnThisMachine() {
        for (String endpoint : new String[] {"http://192.0.2.1:9000", "store:9000"}) {
            assertThatThrownBy(() -> FileSystems.s3(Map.of("AWS_ENDPOINT_URL", endpoint)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining(endpoint + " is not encrypted: use https");
        }
    }

    @Test
    void anAddressStaysAsItIsAndAPathBecomesAFile() {
        assertThat(checkpointsOf("s3://b/x")).isEqualTo("s3://b/x");
        assertThat(checkpointsOf("hdfs:///jobs")).isEqualTo("hdfs:///jobs");
        assertThat(checkpointsOf("/shared/c")).isEqualTo("file:///shared/c");
    }

    @Test
    void aFileSystemThatIsNotThereIsRefusedByName() {
        assertThatThrownBy(() -> FileSystems.check("checkpoint.path", "nosuch://b/x"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("checkpoint.path: there is no file system for nosuch://.");
    }

    private static String checkpointsOf(String path) {
        JobSettings job =
                JobSettings.fromJson(
                        """
                        {"parallelism": 1, "collection": {"dimension": 64, "metric": "l2"},
                         "vectors": {"kind": "file", "path": "/vectors.jsonl"},
                         "checkpoint": {"interval": 1000, "path": "%s"}}
                        """
                                .formatted(path));
        return FlinkSettings.of(job, null).get(CheckpointingOptions.CHECKPOINTS_DIRECTORY);
    }
}
