package io.vstream.flink.bench;

import io.vstream.flink.kafka.KafkaBroker;
import io.vstream.flink.source.DatasetFile;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Measures a job between topics of a real broker, from outside: rates that it sustains, latency
 * from the moment a query was due to be written to the moment its answer is read, recall, and
 * processor time by stage.
 *
 * <ol>
 *   <li>Rows are written, and the run goes on when answers have all of them behind them.
 *   <li>Each step writes 1 query : 3 inserts : 1 delete at a fixed rate. The first seconds of a
 *       step are not measured. A rate is sustained if at the end of the step less than a second of
 *       records, and 100 or another second, has not been applied, or not been answered.
 *   <li>At rest queries are compared with the exact answer over the live rows.
 * </ol>
 *
 * <p>Broker, job and this process share the processors of the machine. The last line of output is
 * the result as JSON.
 */
public final class JobBench implements AutoCloseable {

    private static final int LEFT_OUT_SECONDS = 2;
    private static final int WARM_UP_SECONDS = 25;
    private static final int AT_REST_RATE = 100;
    private static final int SAMPLES_MAX = 150;
    private static final int PRELOAD_PER_SECOND = 25_000;
    private static final double STEEPER = 1.1;
    private static final double MICROS_PER_MILLI = 1e3;
    private static final double NANOS = 1e9;
    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final double THOUSAND = 1e3;
    private static final double TEN_THOUSAND = 1e4;

    private final Options options;
    private final DatasetFile base;
    private final KafkaBroker broker;
    private final Load load;
    private final Answers answers;
    private final JobProcess job;
    private final ArrayNode steps = JsonNodeFactory.instance.arrayNode();

    private JobBench(Options options) throws Exception {
        this.options = options;
        base = DatasetFile.open(options.data().resolve("base.fbin"));
        DatasetFile query = DatasetFile.open(options.data().resolve("query.fbin"));
        broker = KafkaBroker.start(options.folder().resolve("broker"));
        broker.create(Load.topics());
        load = new Load(broker.address(), options, base, query);
        answers = new Answers(broker.address(), load);
        job = new JobProcess(broker.address(), options);
    }

    /** See {@link JobBench}. */
    public static void main(String[] words) throws Exception {
        Options options = Options.of(words);
        Files.createDirectories(options.folder());
        try (JobBench bench = new JobBench(options)) {
            System.out.println(bench.measure());
        }
    }

    private ObjectNode measure() throws Exception {
        long began = System.nanoTime();
        preload();
        say("preloaded in " + (System.nanoTime() - began) / NANOS_PER_MILLI + " ms");
        load.run(options.warmUp(), Duration.ofSeconds(WARM_UP_SECONDS));
        settle();
        boolean sustained = true;
        int rate = 0;
        for (int asked : options.rates()) {
            if (sustained) {
                rate = asked;
                sustained = step(rate);
            }
        }
        while (sustained && options.until()) {
            rate = (int) (rate * STEEPER) / 100 * 100;
            sustained = step(rate);
        }
        answers.keepAll(true);
        int first = load.asked();
        load.ask(options.atRest(), AT_REST_RATE);
        settle();
        ObjectNode result = JsonNodeFactory.instance.objectNode();
        result.put("system", options.system());
        result.put("format", options.json() ? "json" : "raw");
        result.put("delivery", options.exactlyOnce() ? "exactly-once" : "at-least-once");
        result.put("preload", options.preload());
        result.put("batch", options.batch());
        result.put("recall_target", options.recallTarget());
        result.put("effort", options.effort());
        job.close();
        recall(first, result);
        result.set("steps", steps);
        Files.writeString(options.folder().resolve("result.json"), result + "\n");
        return result;
    }

    /** Writes the first rows, no faster than they can be placed before the template is there. */
    private void preload() throws Exception {
        load.run(
                PRELOAD_PER_SECOND,
                Duration.ofMillis(options.preload() * 1_000L / PRELOAD_PER_SECOND));
        settle();
    }

    private boolean step(int rate) throws Exception {
        Map<String, Double> before = processors();
        long writes = load.log().size();
        int first = load.asked();
        long began = System.nanoTime();
        load.run(rate, Duration.ofSeconds(LEFT_OUT_SECONDS));
        load.takeAcks();
        int measured = load.asked();
        double late = load.run(rate, Duration.ofSeconds(options.seconds() - LEFT_OUT_SECONDS));
        double seconds = (System.nanoTime() - began) / NANOS;
        // What is under way for less than a second is not a backlog.
        Thread.sleep(1_000);
        long unapplied = load.log().size() - answers.covered();
        int unanswered = load.asked() - answers.answered();
        int end = load.asked();
        Map<String, Double> after = processors();
        job.check();
        boolean sustained =
                late < 1
                        && unapplied < backlogMax(rate * 0.8)
                        && unanswered < backlogMax(rate * 0.2);
        ObjectNode step = steps.addObject();
        step.put("rate", rate);
        step.put("records_per_s", Math.round((load.log().size() - writes + end - first) / seconds));
        step.put("sustained", sustained);
        step.put("unapplied", unapplied);
        step.put("unanswered", unanswered);
        settle();
        latency(step, answers.latency(measured, end));
        Histogram acks = load.takeAcks();
        step.put("broker_p50_ms", acks.getValueAtPercentile(50) / MICROS_PER_MILLI);
        step.put("broker_p99_ms", acks.getValueAtPercentile(99) / MICROS_PER_MILLI);
        step.put("first_query", measured).put("end_query", end);
        ObjectNode cpu = step.putObject("cpu");
        after.forEach(
                (name, sum) ->
                        cpu.put(name, share(sum - before.getOrDefault(name, 0.0), seconds + 1)));
        say(step.toString());
        return sustained;
    }

    /** What may be under way of so many per second: a second, and 100 or another second. */
    private static double backlogMax(double perSecond) {
        return perSecond + Math.min(100, perSecond);
    }

    /** CPU seconds so far by stage of the job, and of what runs beside it. */
    private Map<String, Double> processors() {
        Map<String, Double> spent = ThreadTimes.byStage(job.pid());
        spent.put("broker", ThreadTimes.sum(broker.pid()));
        spent.put("load generator", ThreadTimes.sum(ProcessHandle.current().pid()));
        spent.put("whole machine", ThreadTimes.machine());
        if (options.serverPid() != 0) {
            spent.put("server of the peer", ThreadTimes.sum(options.serverPid()));
        }
        return spent;
    }

    private static double share(double spent, double seconds) {
        return Math.round(Math.max(0, spent) / seconds * THOUSAND) / THOUSAND;
    }

    private static void latency(ObjectNode step, Histogram micros) {
        step.put("answers", micros.getTotalCount());
        step.put("p50_ms", micros.getValueAtPercentile(50) / MICROS_PER_MILLI);
        step.put("p99_ms", micros.getValueAtPercentile(99) / MICROS_PER_MILLI);
        step.put("p999_ms", micros.getValueAtPercentile(99.9) / MICROS_PER_MILLI);
        step.put("max_ms", micros.getMaxValue() / MICROS_PER_MILLI);
    }

    /** Waits until answers have every write behind them, and there is one to every query. */
    private void settle() throws Exception {
        long end = System.nanoTime() + Duration.ofSeconds(options.patienceSeconds()).toNanos();
        while (answers.covered() < load.log().size() || answers.answered() < load.asked()) {
            job.check();
            if (System.nanoTime() > end) {
                throw new IllegalStateException(
                        "Answers cover "
                                + answers.covered()
                                + " of "
                                + load.log().size()
                                + " writes, and "
                                + answers.answered()
                                + " of "
                                + load.asked()
                                + " queries are answered after "
                                + options.patienceSeconds()
                                + " s");
            }
            Thread.sleep(200);
            if (answers.covered() < load.log().size() && answers.answered() >= load.asked()) {
                load.ask(1, AT_REST_RATE);
            }
        }
    }

    private void recall(int firstAtRest, ObjectNode result) {
        Truth truth = new Truth(base);
        WriteLog.Live all = load.log().live(null, load.log().size());
        double sum = 0;
        int count = 0;
        for (Answers.Sample sample : answers.samples(firstAtRest, load.asked())) {
            sum += truth.recall(load.vector(sample.query()), sample.ids(), all);
            count++;
        }
        result.put("rows", all.certain().cardinality());
        result.put("recall_at_rest", Math.round(sum / count * TEN_THOUSAND) / TEN_THOUSAND);
        result.put("queries_at_rest", count);
        steps.forEach(step -> recall(truth, (ObjectNode) step));
    }

    /** Recall while records come; a peer does not say what it has seen. */
    private void recall(Truth truth, ObjectNode step) {
        List<Answers.Sample> samples =
                answers.samples(step.path("first_query").asInt(), step.path("end_query").asInt());
        if (!options.system().equals("vstream") || samples.isEmpty()) {
            return;
        }
        double sum = 0;
        double uncertain = 0;
        int every = Math.max(1, samples.size() / SAMPLES_MAX);
        int count = 0;
        for (int i = 0; i < samples.size(); i += every) {
            Answers.Sample sample = samples.get(i);
            WriteLog.Live live = load.log().live(sample.frontier(), sample.until());
            sum += truth.recall(load.vector(sample.query()), sample.ids(), live);
            uncertain += live.uncertain().cardinality();
            count++;
        }
        step.put("recall", Math.round(sum / count * TEN_THOUSAND) / TEN_THOUSAND);
        step.put("recall_queries", count);
        step.put("uncertain_rows", Math.round(uncertain / count));
    }

    private static void say(String text) {
        System.err.println(text);
    }

    @Override
    public void close() throws Exception {
        job.close();
        answers.close();
        load.close();
        broker.close();
    }
}
