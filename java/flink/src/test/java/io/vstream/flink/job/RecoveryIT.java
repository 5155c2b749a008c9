package io.vstream.flink.job;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.fault.Fault;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The whole job through failures, restores and deliberate defects, held to the oracle. */
class RecoveryIT {

    private static final long SEED = 20_250_611;
    private static final int WRITES = 12_000;

    @TempDir private Path folder;

    @Test
    void aFailureInTheMiddleLosesNothingAndRepeatsNothing() throws Exception {
        // The job fails after the training, so the restore has a template and settled rows.
        WriteScript script = script(SEED);
        assertThat(new Scenario(script, folder).failingAfter(WRITES / 2).differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @Test
    void aFailureBeforeTheTrainingLosesNothing() throws Exception {
        // Half of the ids never leave the unplaced range: the sample is never full.
        WriteScript script = new WriteScript(SEED + 1, 600, 450, 40, 400, 450);
        assertThat(new Scenario(script, folder).failingAfter(200).differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @Test
    void rowsThatOutranTheTrainingAreMovedOnceAndStayWhole() throws Exception {
        // No gate after the sample: rows pour in unplaced while the template is trained, and the
        // job fails before most of them are placed for good.
        WriteScript script = new WriteScript(SEED + 2, 600, WRITES, 40, 8_000, WRITES);
        assertThat(new Scenario(script, folder).failingAfter(WRITES / 3).differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @Test
    void placingByIdNeedsNoTraining() throws Exception {
        WriteScript script = script(SEED + 5);
        assertThat(new Scenario(script, folder).byId().failingAfter(WRITES / 2).differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @Test
    void copiesInSeveralPartitionsAreOneRow() throws Exception {
        WriteScript script = script(SEED + 3);
        assertThat(
                        new Scenario(script, folder)
                                .withFamilies(3)
                                .failingAfter(WRITES / 2)
                                .differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @Test
    void copiesInSeveralPartitionsSurviveAnotherParallelism() throws Exception {
        WriteScript script =
                new WriteScript(SEED + 4, 600, WRITES, 40, 50_000, 1_000, WRITES / 2, WRITES);
        String savepoint = new Scenario(script, folder).withFamilies(3).stopAt(1, 4);
        assertThat(new Scenario(script, folder).withFamilies(3).from(savepoint).differences(2))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 4})
    void aSavepointRestoresAtAnotherParallelism(int parallelism) throws Exception {
        // Stage 0 ends the training, stage 1 is where the job stops, stage 2 precedes the queries.
        WriteScript script =
                new WriteScript(
                        SEED + parallelism, 600, WRITES, 40, 50_000, 1_000, WRITES / 2, WRITES);
        String savepoint = new Scenario(script, folder).stopAt(1, 2);
        assertThat(new Scenario(script, folder).from(savepoint).differences(parallelism))
                .as("seed %d", script.seed())
                .isEmpty();
    }

    @ParameterizedTest
    @EnumSource(value = Fault.class, mode = EnumSource.Mode.MATCH_NONE, names = "(FAIL|KILL)_IN_.*")
    void everyDefectIsNoticed(Fault fault) throws Exception {
        WriteScript script = script(SEED + 100 + fault.ordinal());
        Scenario scenario = new Scenario(script, folder).with(fault);
        if (fault == Fault.FORGET_SHARDS_ON_RESTORE) {
            scenario.failingAfter(WRITES / 2);
        }
        assertThat(scenario.differences(2)).as("seed %d", script.seed()).isNotEmpty();
    }

    /**
     * Paced, so that checkpoints complete meanwhile; the gates follow the sample and the writes.
     */
    private static WriteScript script(long seed) {
        return new WriteScript(seed, 600, WRITES, 40, 8_000, 1_000, WRITES);
    }
}
