package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.fail;

import io.vstream.flink.dataflow.DataflowSettings;
import io.vstream.flink.fault.Fault;
import java.nio.file.Path;
import java.util.function.Function;
import org.apache.flink.util.ExceptionUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What rows carry, through all that happens to a job: cells that change partition, failures, other
 * parallelisms and a schema that grows. Products are written, updated, deleted and asked for with
 * filters, and every answer is held to the oracle.
 */
class ProductsIT {

    private static final long SEED = 20_260_601;
    private static final int IDS = 5_000;
    private static final int WRITES = 10_000;

    /** A fourth of them is approximate: 1,000 neighbours, whose mean is known within 0.02. */
    private static final int QUERIES = 400;

    private static final int RUNS_MAX = 6;

    @TempDir private Path folder;

    @Test
    void productsChangePartitionWhileTheyAreUpdated() throws Exception {
        ProductScript script = drifting(SEED);
        changesPartition(
                script,
                4,
                paced -> new Scenario(paced.of(), folder).carrying(paced).rebalancing("cells"));
    }

    @Test
    void productsInSegmentsChangePartitionAcrossAFailure() throws Exception {
        ProductScript script = drifting(SEED + 1);
        changesPartition(
                script,
                3,
                paced ->
                        new Scenario(paced.of(), folder)
                                .carrying(paced)
                                .withMemory(1 << 16)
                                .rebalancing("cells")
                                .with(Fault.FAIL_IN_ADOPT));
    }

    /**
     * Whether rows move depends on loads, and so on how busy the machine is. Each second run is
     * slower than those before it.
     */
    private static void changesPartition(
            ProductScript script, int parallelism, Function<ProductScript, Scenario> runs)
            throws Exception {
        for (int run = 0; run < RUNS_MAX; run++) {
            Scenario scenario = runs.apply(new ProductScript(script.of().slower(1 + run / 2)));
            assertThat(scenario.differences(parallelism))
                    .as("seed %d", script.of().seed())
                    .isEmpty();
            if (scenario.adopted() > 0) {
                return;
            }
        }
        fail("In none of %d runs a product changed its partition.", RUNS_MAX);
    }

    @ParameterizedTest
    @ValueSource(ints = {300, WRITES / 2})
    void aFailureLosesNothingThatProductsCarry(int records) throws Exception {
        // Once while products are held until they are placed, and once when they are.
        WriteScript writes =
                records < WRITES / 4
                        ? new WriteScript(SEED + 2, 600, 450, 40, 400, 450)
                        : new WriteScript(SEED + 3, IDS, WRITES, QUERIES, 8_000, 1_000, WRITES);
        ProductScript script = new ProductScript(writes);
        assertThat(
                        new Scenario(writes, folder)
                                .carrying(script)
                                .failingAfter(records)
                                .differences(2))
                .as("seed %d", writes.seed())
                .isEmpty();
    }

    @ParameterizedTest
    @CsvSource({"2, 3, 0", "4, 2, 65536"})
    void aCheckpointRestoresProductsAtAnotherParallelism(int before, int after, long memory)
            throws Exception {
        WriteScript writes = stopping(SEED + 10 + after);
        ProductScript script = new ProductScript(writes);
        String checkpoint =
                new Scenario(writes, folder)
                        .carrying(script)
                        .withMemory(memory)
                        .cancelAt(1, before);
        assertThat(
                        new Scenario(writes, folder)
                                .carrying(script)
                                .withMemory(memory)
                                .from(checkpoint)
                                .differences(after))
                .as("seed %d", writes.seed())
                .isEmpty();
    }

    @ParameterizedTest
    @CsvSource({"2, 1", "3, 0"})
    void anAttributeIsAddedToAJobThatGoesOn(int after, int stage) throws Exception {
        // At stage 0 products are held, with their attributes, until the first template.
        WriteScript writes = stopping(SEED + 20 + after + stage);
        String savepoint =
                new Scenario(writes, folder).carrying(new ProductScript(writes)).stopAt(stage, 2);
        ProductScript script = new ProductScript(writes, writes.gates()[stage]);
        assertThat(new Scenario(writes, folder).carrying(script).from(savepoint).differences(after))
                .as("seed %d", writes.seed())
                .isEmpty();
    }

    @Test
    void attributesThatGoOrChangeAreRefused() throws Exception {
        WriteScript writes = stopping(SEED + 30);
        ProductScript script = new ProductScript(writes);
        String savepoint = new Scenario(writes, folder).carrying(script).stopAt(1, 2);
        String all = script.keys();
        refused(
                script,
                savepoint,
                2,
                all.replace(", \"stock\": \"i64\"", ""),
                "The attribute 'stock' cannot be removed.");
        // Partitions that take rows out of several states refuse what one of the same shards does.
        refused(
                script,
                savepoint,
                3,
                all.replace("\"price\": \"f64\"", "\"price\": \"i64\""),
                "The attribute 'price' is of type f64, not i64.");
        refused(
                script,
                savepoint,
                3,
                all.replace("{\"price\"", "{\"size\": \"i64\", \"price\""),
                "add attributes at the end");
    }

    @Test
    void anOpenSchemaIsRefused() {
        String keys = "{\"dimension\": 64, \"metric\": \"l2\", \"open\": true}";
        assertThatThrownBy(() -> DataflowSettings.of(keys, 2).build())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("collection.open: ");
    }

    private void refused(
            ProductScript script, String savepoint, int parallelism, String keys, String sentence) {
        Scenario scenario =
                new Scenario(script.of(), folder).carrying(script).withRows(keys).from(savepoint);
        Throwable thrown = null;
        try {
            scenario.differences(parallelism);
        } catch (Throwable e) {
            thrown = e;
        }
        assertThat(thrown).as(keys).isNotNull();
        assertThat(ExceptionUtils.stringifyException(thrown)).contains(sentence);
    }

    private static ProductScript drifting(long seed) {
        return new ProductScript(
                new WriteScript(seed, true, IDS, WRITES, QUERIES, 4_000, 1_000, WRITES));
    }

    /** Stage 0 ends the training, stage 1 is where the job stops, stage 2 precedes the queries. */
    private static WriteScript stopping(long seed) {
        return new WriteScript(seed, IDS, WRITES, QUERIES, 50_000, 1_000, WRITES / 2, WRITES);
    }
}
