package io.vstream.flink.route;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.junit.jupiter.api.Test;

class ShardKeysTest {

    @Test
    void aShardIsItsKeyGroup() {
        for (int shard = 0; shard < ShardKeys.SHARDS; shard++) {
            assertThat(
                            KeyGroupRangeAssignment.assignToKeyGroup(
                                    ShardKeys.of(shard), ShardKeys.SHARDS))
                    .isEqualTo(shard);
        }
    }

    @Test
    void flinkSendsAShardToItsPartition() {
        for (int parallelism = 1; parallelism <= ShardKeys.SHARDS; parallelism++) {
            for (int shard = 0; shard < ShardKeys.SHARDS; shard++) {
                int partition = ShardKeys.partition(shard, parallelism);
                assertThat(partition).isEqualTo(shard * parallelism / ShardKeys.SHARDS);
                assertThat(
                                KeyGroupRangeAssignment.assignKeyToParallelOperator(
                                        ShardKeys.of(shard), ShardKeys.SHARDS, parallelism))
                        .isEqualTo(partition);
                int first = ShardKeys.shardIn(partition, parallelism);
                assertThat(ShardKeys.partition(first, parallelism)).isEqualTo(partition);
                assertThat(first).isLessThanOrEqualTo(shard);
            }
        }
    }
}
