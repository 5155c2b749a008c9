package io.vstream.flink.ask;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/**
 * How a {@link JobReader} asks.
 *
 * @param key that the job's partitions know; empty for none
 * @param certificates PEM file with the certificate that they have, or of who signed it; null for
 *     no TLS
 * @param deadline of a question, until which it is asked again where a partition gives no answer
 * @param k rows of a question that does not say
 */
public record ReadOptions(String key, Path certificates, Duration deadline, int k) {

    /** For a job on this machine: no key, no TLS, 5 seconds, 10 rows. */
    public static final ReadOptions LOCAL = new ReadOptions("", null, Duration.ofSeconds(5), 10);

    /** Refuses what no question can have. */
    public ReadOptions {
        Objects.requireNonNull(key, "key");
        if (deadline.toMillis() < 1 || deadline.toMillis() > 60_000) {
            throw new IllegalArgumentException(
                    "The deadline is " + deadline + ": set 1 ms to 60 s.");
        }
    }
}
