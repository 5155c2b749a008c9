package io.vstream.flink.job;

import io.vstream.nativecore.EngineException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Submits one job to a Flink cluster, from the jar that holds all of VStream but Flink.
 *
 * <pre>
 * vstream check job.yaml &gt; job.json
 * flink run -d vstream-cluster-0.1.0.jar --job job.json
 * flink run -d -s CHECKPOINT vstream-cluster-0.1.0.jar --job job.json    # goes on from there
 * </pre>
 *
 * <p>The job reads topics, since the files of one machine are not those of another. Engines keep
 * their private files in the temporary folders of their task managers; {@code checkpoint.path} must
 * be a folder that all machines share, or an address on a file system whose plugin they have.
 * Vectors live outside the heap, and Flink does not see that memory: leave room for it beside
 * {@code taskmanager.memory.process.size}.
 */
public final class ClusterJob {

    private static final ObjectMapper JSON = new ObjectMapper();

    private ClusterJob() {}

    /**
     * See {@link ClusterJob}.
     *
     * @throws IllegalArgumentException with a sentence if the job cannot run on a cluster
     */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 2 || !arguments[0].equals("--job")) {
            throw new IllegalArgumentException("Say which job to submit: --job FILE.");
        }
        JobSettings job = settings(Files.readString(Path.of(arguments[1]), StandardCharsets.UTF_8));
        Sources.checkBrokers(job);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(FlinkSettings.of(job, null));
        try {
            // Nobody opens a gate on a cluster, so a name that nobody knows is an open one.
            VStreamJob.add(env, job, "");
        } catch (EngineException e) {
            throw new IllegalArgumentException(e.getMessage(), e);
        }
        env.execute(job.name());
    }

    /** Reads a normalised job, less the folders of the machine that it was written on. */
    static JobSettings settings(String text) throws IOException {
        JsonNode json;
        try {
            json = JSON.readTree(text);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(
                    "The job is not JSON: " + e.getOriginalMessage() + ".", e);
        }
        if (json.hasNonNull("snapshot")) {
            throw new IllegalArgumentException(
                    "snapshot: partitions of a cluster have no folder in common to leave snapshots"
                            + " in. Remove it, and take a savepoint instead.");
        }
        if (json instanceof ObjectNode fields) {
            fields.remove("state");
        }
        JobSettings job = JobSettings.fromJson(json.toString());
        if (!job.unbounded()) {
            throw new IllegalArgumentException(
                    "vectors.kind: a job on a cluster reads topics, since the files of one machine"
                            + " are not those of another. Set it to kafka.");
        }
        return job;
    }
}
