package io.vstream.flink.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.stream.IntStream;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShardKeysTest {

    @ParameterizedTest
    @ValueSource(ints = {128, 1_024, 4_096})
    void aShardIsItsKeyGroup(int shards) {
        ShardKeys keys = ShardKeys.of(shards);
        for (int shard = 0; shard < shards; shard++) {
            assertThat(KeyGroupRangeAssignment.assignToKeyGroup(keys.key(shard), shards))
                    .isEqualTo(shard);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {128, 1_024, 4_096})
    void flinkSendsAShardToItsPartition(int shards) {
        ShardKeys keys = ShardKeys.of(shards);
        List<Integer> parallelisms =
                shards == ShardKeys.USUAL
                        ? IntStream.rangeClosed(1, shards).boxed().toList()
                        : List.of(1, 2, 3, 127, 128, 129, 200, 255, 256, 257, 300, 1_000, shards);
        for (int parallelism : parallelisms) {
            for (int shard = 0; shard < shards && parallelism <= shards; shard++) {
                int partition = keys.partition(shard, parallelism);
                assertThat(partition).isEqualTo(shard * parallelism / shards);
                assertThat(
                                KeyGroupRangeAssignment.assignKeyToParallelOperator(
                                        keys.key(shard), shards, parallelism))
                        .isEqualTo(partition);
                int first = keys.shardIn(partition, parallelism);
                assertThat(keys.partition(first, parallelism)).isEqualTo(partition);
                assertThat(first).isLessThanOrEqualTo(shard);
                assertThat(keys.shardsOf(partition, parallelism).contains(shard)).isTrue();
            }
        }
    }

    @Test
    void anIdLeadsToEachSubtask() {
        for (int shards : new int[] {128, 1_024, 4_096}) {
            ShardKeys keys = ShardKeys.of(shards);
            for (int subtask = 0; subtask < 100; subtask++) {
                // Flink hashes the boxed long of a keyed stream.
                Long id = keys.idIn(subtask, 100);
                assertThat(KeyGroupRangeAssignment.assignKeyToParallelOperator(id, shards, 100))
                        .isEqualTo(subtask);
            }
        }
    }

    @Test
    void tasksOfOneProcessShareATable() throws Exception {
        ShardKeys keys = ShardKeys.of(1_024);
        assertThat(ShardKeys.of(1_024)).isSameAs(keys);
        assertThat(InstantiationUtil.clone(keys)).isSameAs(keys);
        assertThat(keys).isNotEqualTo(ShardKeys.of(128)).hasToString("1024 shards");
    }

    @Test
    void theSettingsOfACollectionSayHowMany() {
        assertThat(ShardKeys.ofCollection("{}").shards()).isEqualTo(128);
        assertThat(ShardKeys.ofCollection("{\"shards\": 2048}").shards()).isEqualTo(2_048);
        for (String bad : List.of("0", "-128", "64", "300", "8192", "1e3", "\"many\"", "128.5")) {
            assertThatThrownBy(() -> ShardKeys.ofCollection("{\"shards\": " + bad + "}"))
                    .as(bad)
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("is no power of two from 128 to 4096");
        }
    }
}
