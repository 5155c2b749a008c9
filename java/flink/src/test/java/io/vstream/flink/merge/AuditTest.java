package io.vstream.flink.merge;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.vstream.flink.search.Neighbors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What an audit says, against a count over all rows. */
class AuditTest {

    private static final int ROWS = 20_000;

    @ParameterizedTest
    @CsvSource({"1, 2, 1", "10, 2, 1", "10, 4, 2", "100, 8, 3", "1000, 8, 8", "10, 1, 1"})
    void foundLostAndMissedAreAllThereIs(int k, int partitions, int asked) {
        long seed = 31L * k + partitions;
        Random random = new Random(seed);
        float[] distances = new float[ROWS];
        for (int id = 0; id < ROWS; id++) {
            distances[id] = random.nextFloat();
        }
        List<Neighbors> exact = new ArrayList<>();
        List<Neighbors> usual = new ArrayList<>();
        Set<Integer> given = new HashSet<>();
        for (int partition = 0; partition < partitions; partition++) {
            List<Integer> own = new ArrayList<>();
            for (int id = partition; id < ROWS; id += partitions) {
                own.add(id);
            }
            own.sort((a, b) -> Float.compare(distances[a], distances[b]));
            exact.add(neighbors(own.subList(0, k), distances));
            // One in ten is missed, and the next one taken for it.
            own.removeIf(id -> random.nextInt(10) == 0);
            List<Integer> found = partition < asked ? own.subList(0, k) : List.of();
            usual.add(neighbors(found, distances));
            given.addAll(found);
        }
        Integer[] order = new Integer[ROWS];
        Arrays.setAll(order, id -> id);
        Arrays.sort(order, (a, b) -> Float.compare(distances[a], distances[b]));
        List<Integer> truth = List.of(order).subList(0, k);
        double lost = truth.stream().filter(id -> id % partitions >= asked).count();
        double found = truth.stream().filter(given::contains).count();

        Audit audit = Audit.of(usual, exact, k, new Ranking(), new Ranking());
        assertThat(audit.lost()).as("seed %d", seed).isCloseTo(lost / k, within(1e-9));
        // Equal distances are rare and count as found.
        assertThat(audit.found()).as("seed %d", seed).isBetween(found / k, found / k + 0.002);
        assertThat(audit.missed()).isCloseTo(1 - audit.found() - audit.lost(), within(1e-9));
    }

    private static Neighbors neighbors(List<Integer> rows, float[] distances) {
        Neighbors out =
                new Neighbors(new long[rows.size()], new long[rows.size()], new float[rows.size()]);
        for (int i = 0; i < rows.size(); i++) {
            out.ids()[i] = rows.get(i);
            out.versions()[i] = 1;
            out.distances()[i] = distances[rows.get(i)];
        }
        return out;
    }
}
