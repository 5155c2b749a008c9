package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.route.ShardKeys;
import io.vstream.flink.route.SpreadGroup;
import io.vstream.nativecore.NativeGroups;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.junit.jupiter.api.Test;

class GroupSpreadingTest {

    private static final ShardKeys KEYS = ShardKeys.of(ShardKeys.USUAL);

    private static final long SEED = 7;
    private static final KeyGroupRange ALL = new KeyGroupRange(0, ShardKeys.USUAL - 1);

    private final List<SpreadGroup> announced = new ArrayList<>();

    private GroupSpreading spreading(KeyGroupRange shards) {
        return new GroupSpreading(SEED, KEYS, shards, 3, announced::add);
    }

    @Test
    void rowsGoToSlicesOnceACheckpointHoldsTheAnnouncement() {
        GroupSpreading spreading = spreading(ALL);
        spreading.snapshot(4);
        spreading.tooLarge("ann");
        spreading.tooLarge("ann");
        assertThat(announced).hasSize(1);
        // It began before the announcement.
        spreading.completed(4);
        assertThat(spreading.of("ann")).isNull();
        assertThat(spreading.snapshot(5)).isEqualTo(announced);
        assertThat(spreading.of("ann")).isNull();
        spreading.snapshot(6);
        // The fifth was aborted.
        spreading.completed(6);
        assertThat(spreading.of("ann")).isEqualTo(announced.get(0));
        assertThat(spreading.of("bob")).isNull();
        spreading.tooLarge("ann");
        assertThat(announced).hasSize(1);
        assertThat(spreading.snapshot(7)).isEqualTo(announced);
    }

    @Test
    void aRestoreSpreadsWhatItsCheckpointHoldsAtAnyParallelism() {
        GroupSpreading before = spreading(ALL);
        for (int group = 0; group < 50; group++) {
            before.tooLarge("user-" + group);
        }
        List<SpreadGroup> state = before.snapshot(1);
        assertThat(state).hasSize(50);
        int spread = 0;
        for (int subtask = 0; subtask < 4; subtask++) {
            KeyGroupRange shards = new KeyGroupRange(32 * subtask, 32 * subtask + 31);
            GroupSpreading after = spreading(shards);
            after.restore(state);
            for (SpreadGroup group : state) {
                boolean own = shards.contains(group.shard());
                assertThat(after.of(group.group()) != null).isEqualTo(own);
                spread += own ? 1 : 0;
            }
            // Of another subtask.
            announced.clear();
            state.stream()
                    .filter(group -> !shards.contains(group.shard()))
                    .forEach(group -> after.tooLarge(group.group()));
            assertThat(announced).isEmpty();
            assertThat(after.snapshot(2)).allMatch(one -> shards.contains(one.shard()));
        }
        assertThat(spread).isEqualTo(50);
    }

    @Test
    void slicesLieInShardsFarApartUnderNamesThatNoGroupHas() {
        for (int slices : new int[] {1, 8, 13, 64}) {
            SpreadGroup group = new SpreadGroup("café", SEED, KEYS, slices);
            Set<Integer> shards = new HashSet<>();
            Set<String> names = new HashSet<>();
            for (int slice = 0; slice < slices; slice++) {
                String name = group.name(slice);
                assertThat(NativeGroups.shard(SEED, KEYS.shards(), name))
                        .isEqualTo(group.shard(slice));
                assertThat(NativeGroups.mayBe(name)).isFalse();
                assertThat(name).startsWith("café\0");
                shards.add(group.shard(slice));
                names.add(name);
            }
            assertThat(shards).hasSize(slices);
            assertThat(names).hasSize(slices);
            assertThat(group).isEqualTo(new SpreadGroup("café", SEED, KEYS, slices));
        }
    }

    @Test
    void slicesOfACollectionWithMoreShardsLieInPartitionsOfTheirOwn() throws IOException {
        for (int count : new int[] {1_024, 4_096}) {
            ShardKeys keys = ShardKeys.of(count);
            SpreadGroup group = new SpreadGroup("ann", SEED, keys, 64);
            for (int partitions : new int[] {64, 128, 300}) {
                Set<Integer> taken = new HashSet<>();
                for (int slice = 0; slice < 64; slice++) {
                    int shard = group.shard(slice);
                    assertThat(NativeGroups.shard(SEED, count, group.name(slice))).isEqualTo(shard);
                    taken.add(keys.partition(shard, partitions));
                }
                assertThat(taken).hasSize(64);
            }
            SpreadGroup.SpreadGroupSerializer serializer = new SpreadGroup.SpreadGroupSerializer();
            DataOutputSerializer out = new DataOutputSerializer(32);
            serializer.serialize(group, out);
            DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
            SpreadGroup read = serializer.deserialize(in);
            assertThat(read).isEqualTo(group);
            assertThat(read.shard()).isEqualTo(group.shard());
            assertThat(in.available()).isZero();
            // The number of shards decides where the slices are, not what they are called.
            assertThat(read.name(5)).isEqualTo(new SpreadGroup("ann", SEED, KEYS, 64).name(5));
            assertThat(read).isNotEqualTo(new SpreadGroup("ann", SEED, KEYS, 64));
        }
    }

    @Test
    void idsSpreadEvenly() {
        SpreadGroup group = new SpreadGroup("ann", SEED, KEYS, 8);
        for (long step : new long[] {1, 1_000, 1L << 32, 1L << 48, -3}) {
            int[] rows = new int[8];
            for (long id = 0; id < 16_000; id++) {
                rows[group.sliceOf(id * step)]++;
            }
            for (int slice : rows) {
                assertThat(slice).as("step %d", step).isBetween(1_600, 2_400);
            }
        }
    }

    @Test
    void aNameThatLeavesNoRoomIsNotSpread() {
        GroupSpreading spreading = spreading(ALL);
        spreading.tooLarge("é".repeat(256));
        assertThat(announced).isEmpty();
        spreading.tooLarge("é".repeat(252));
        assertThat(announced).hasSize(1);
    }
}
