package io.vstream.flink.kafka;

import java.util.Collection;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Asks the brokers, before a job starts, what only they know: that the topics exist, and how long
 * they let a transaction live. Whether a transaction outlives a checkpoint and an outage is
 * compared by the settings schema.
 */
public final class BrokerCheck {

    private static final String LIMIT = "transaction.max.timeout.ms";
    private static final int PATIENCE_MILLIS = 15_000;

    private BrokerCheck() {}

    /**
     * Checks a topic that is read.
     *
     * @param key of the section in the settings, for messages
     * @throws IllegalArgumentException with a sentence that says what to change
     */
    public static void check(String key, KafkaInput input) {
        try (Admin admin = admin(input.brokers(), input.properties())) {
            topic(admin, key, input.brokers(), input.topic());
        } catch (KafkaException e) {
            throw unusable(key, input.brokers(), e);
        }
    }

    /** Checks the topic of the answers; see {@link #check(String, KafkaInput)}. */
    public static void check(String key, KafkaOutput output) {
        try (Admin admin = admin(output.brokers(), output.properties())) {
            topic(admin, key, output.brokers(), output.topic());
            if (output.exactlyOnce()) {
                transactions(admin, key, output);
            }
        } catch (KafkaException e) {
            throw unusable(key, output.brokers(), e);
        }
    }

    private static Admin admin(String brokers, Map<String, String> client) {
        Properties properties = new Properties();
        properties.putAll(client);
        properties.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        properties.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, PATIENCE_MILLIS / 3);
        properties.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, PATIENCE_MILLIS);
        return Admin.create(properties);
    }

    private static void topic(Admin admin, String key, String brokers, String topic) {
        try {
            admin.describeTopics(Set.of(topic))
                    .allTopicNames()
                    .get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                throw new IllegalArgumentException(
                        key
                                + ".topic: the brokers at "
                                + brokers
                                + " have no topic '"
                                + topic
                                + "'. Create it, or correct the name.",
                        e);
            }
            throw unusable(key, brokers, e.getCause());
        } catch (TimeoutException e) {
            throw unusable(key, brokers, e);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    private static void transactions(Admin admin, String key, KafkaOutput output) {
        Collection<Config> configs;
        try {
            Node broker =
                    admin.describeCluster()
                            .nodes()
                            .get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS)
                            .iterator()
                            .next();
            ConfigResource resource =
                    new ConfigResource(ConfigResource.Type.BROKER, broker.idString());
            configs =
                    admin.describeConfigs(Set.of(resource))
                            .all()
                            .get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS)
                            .values();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof AuthorizationException) {
                // Who may write a topic may not always ask for this. The broker refuses a timeout
                // that is too long when the first transaction begins.
                return;
            }
            throw unusable(key, output.brokers(), e.getCause());
        } catch (TimeoutException e) {
            throw unusable(key, output.brokers(), e);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
        for (Config config : configs) {
            compare(key, output, Long.parseLong(config.get(LIMIT).value()));
        }
    }

    /** Refuses a transaction timeout above what the broker allows. */
    static void compare(String key, KafkaOutput output, long allowedMillis) {
        if (output.transactionTimeoutMillis() > allowedMillis) {
            throw new IllegalArgumentException(
                    key
                            + ".transaction-timeout: "
                            + output.transactionTimeoutMillis()
                            + " ms is more than the "
                            + allowedMillis
                            + " ms that the brokers at "
                            + output.brokers()
                            + " allow. Make it shorter, or raise their "
                            + LIMIT
                            + ".");
        }
    }

    private static IllegalArgumentException unusable(String key, String brokers, Throwable cause) {
        return new IllegalArgumentException(
                key
                        + ".brokers: "
                        + brokers
                        + " cannot be used ("
                        + cause.getMessage()
                        + "). Check that a broker listens there and that the properties of the"
                        + " client are right.",
                cause);
    }

    private static IllegalStateException interrupted(InterruptedException cause) {
        Thread.currentThread().interrupt();
        return new IllegalStateException("Interrupted while asking the brokers.", cause);
    }
}
