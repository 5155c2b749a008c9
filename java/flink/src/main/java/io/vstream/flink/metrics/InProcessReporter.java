package io.vstream.flink.metrics;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** Hands the metrics of a MiniCluster to the code that started it. */
public final class InProcessReporter implements MetricReporter {

    private static final String VIEW = "view";
    private static final Map<String, MetricsView> VIEWS = new ConcurrentHashMap<>();

    private final MetricsView view;

    private InProcessReporter(MetricsView view) {
        this.view = view;
    }

    /**
     * Makes the cluster that will be configured with {@code configuration} report here.
     *
     * @param name unique in this process
     * @return what it reports; {@link #release} ends it
     */
    public static MetricsView install(Configuration configuration, String name) {
        MetricsView view = new MetricsView();
        VIEWS.put(name, view);
        String prefix = "metrics.reporter.vstream.";
        configuration.setString("metrics.reporters", "vstream");
        configuration.setString(prefix + "factory.class", Factory.class.getName());
        configuration.setString(prefix + VIEW, name);
        return view;
    }

    /** Forgets a view. */
    public static void release(String name) {
        VIEWS.remove(name);
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        if (!(metric instanceof Count
                || metric instanceof Level
                || metric instanceof Text
                || metric instanceof Latency)) {
            return;
        }
        Map<String, String> variables = group.getAllVariables();
        view.add(
                name,
                variables.getOrDefault("<operator_name>", ""),
                variables.getOrDefault("<subtask_index>", "0"),
                Integer.parseInt(variables.getOrDefault("<task_attempt_num>", "0")),
                metric);
    }

    /** Keeps the metric: see {@link MetricsView}. */
    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}

    /** Found by Flink through {@code META-INF/services}. */
    public static final class Factory implements MetricReporterFactory {
        @Override
        public MetricReporter createMetricReporter(Properties properties) {
            String name = properties.getProperty(VIEW, "");
            return new InProcessReporter(VIEWS.getOrDefault(name, new MetricsView()));
        }
    }
}
