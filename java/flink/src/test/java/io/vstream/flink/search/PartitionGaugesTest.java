package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.metrics.Meters;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.junit.jupiter.api.Test;

class PartitionGaugesTest {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Gauge<?>> registered = new HashMap<>();

    @Test
    void theStatsOfAnEngineAreShownUnderFlinksNames() throws Exception {
        PartitionGauges gauges = new PartitionGauges(new Meters(new Group("operator")));
        assertThat(value("operator.vector.freshnessLagMs")).isEqualTo(-1L);
        assertThat(value("operator.vector.recallEstimate")).isEqualTo(Double.NaN);
        gauges.show(
                JSON.readTree(
                        """
                        {"live-rows": 10, "deleted-rows": 2, "memory-bytes": 350,
                         "segment-bytes": 4000, "cache-bytes": 50,
                         "in-memory-ms": 7000, "on-disk-ms": null,
                         "recall": {"mean": 0.96, "margin": 0.01, "audits": 40}}
                        """),
                new Frontier(5_000, new long[0]),
                7_500);
        assertThat(value("operator.vector.indexed")).isEqualTo(10L);
        assertThat(value("operator.vector.deleted")).isEqualTo(2L);
        assertThat(value("operator.vector.nativeMemoryBytes")).isEqualTo(350L);
        assertThat(value("operator.vector.tier=memory.tierBytes")).isEqualTo(300L);
        assertThat(value("operator.vector.tier=disk.tierBytes")).isEqualTo(4_000L);
        assertThat(value("operator.vector.tier=memory.tierResidenceMs")).isEqualTo(7_000L);
        assertThat(value("operator.vector.tier=disk.tierResidenceMs")).isEqualTo(-1L);
        assertThat(value("operator.vector.freshnessLagMs")).isEqualTo(2_500L);
        assertThat(value("operator.vector.recallEstimate")).isEqualTo(0.96);
        assertThat(value("operator.vector.recallMargin")).isEqualTo(0.01);
        assertThat(value("operator.vector.remoteBytes")).isEqualTo(0L);
        gauges.show(
                JSON.readTree(
                        """
                        {"recall": null, "segment-bytes": 4000,
                         "remote": {"local-bytes": 1000, "remote-bytes": 3000}}
                        """),
                Frontier.NONE,
                8_000);
        assertThat(value("operator.vector.tier=disk.tierBytes")).isEqualTo(1_000L);
        assertThat(value("operator.vector.remoteBytes")).isEqualTo(3_000L);
        assertThat(value("operator.vector.freshnessLagMs")).isEqualTo(-1L);
        assertThat(value("operator.vector.recallEstimate")).isEqualTo(Double.NaN);
    }

    private Object value(String name) {
        assertThat(registered).containsKey(name);
        return registered.get(name).getValue();
    }

    /** Keeps every gauge under the path of its groups. */
    private final class Group extends UnregisteredMetricsGroup {

        private final String path;

        private Group(String path) {
            this.path = path;
        }

        @Override
        public <T, G extends Gauge<T>> G gauge(String name, G gauge) {
            registered.put(path + "." + name, gauge);
            return gauge;
        }

        @Override
        public MetricGroup addGroup(String name) {
            return new Group(path + "." + name);
        }

        @Override
        public MetricGroup addGroup(String key, String value) {
            return new Group(path + "." + key + "=" + value);
        }
    }
}
