package io.vstream.flink.place;

import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.metrics.Count;
import io.vstream.flink.route.ShardKeys;
import io.vstream.nativecore.RowFields;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Sends writes to the partitions, and to each of them what is for all. Reuses one record. */
final class WriteSender {

    private final Output<StreamRecord<Write>> output;
    private final ShardKeys keys;
    private final int partitions;
    private final CopyTracker copies;
    private final Count sent;
    private final Write write = new Write();
    private final StreamRecord<Write> record = new StreamRecord<>(write);

    /**
     * @param keys of the collection
     * @param partitions of the job
     * @param copies tells who holds a row
     * @param sent counts upserts and deletes
     */
    WriteSender(
            Output<StreamRecord<Write>> output,
            ShardKeys keys,
            int partitions,
            CopyTracker copies,
            Count sent) {
        this.output = output;
        this.keys = keys;
        this.partitions = partitions;
        this.copies = copies;
        this.sent = sent;
    }

    /** Sends the copies of a row, one to each partition of {@code now}; returns how many. */
    int upserts(long id, float[] vector, RowFields fields, Location now) {
        int count = 0;
        for (int i = 0; i < now.count(); i++) {
            if (copies.isFirstInPartition(now, i)) {
                write.upsert(id, now.version(), now.code(i), now.shard(i), vector, fields);
                output.collect(record);
                sent.inc();
                count++;
            }
        }
        return count;
    }

    /** Sends an update to every holder, wherever it says that the row is. */
    void updates(long id, long version, RowFields change) {
        Holders holders = copies.holders();
        for (int i = 0; i < holders.count(); i++) {
            write.update(id, version, holders.code(i), holders.shard(i), change);
            output.collect(record);
            sent.inc();
        }
    }

    /** Sends a delete to every holder that has no copy of {@code now} (null for none). */
    void deletes(long id, long version, Location now) {
        Holders holders = copies.holders();
        for (int i = 0; i < holders.count(); i++) {
            int shard = holders.shard(i);
            if (now == null || !copies.sharesPartition(now, shard)) {
                write.delete(id, version, holders.code(i), shard);
                output.collect(record);
                sent.inc();
            }
        }
    }

    /** Acknowledges a command to every partition. */
    void acknowledge(CommandAck ack) {
        for (int partition = 0; partition < partitions; partition++) {
            write.acknowledge(ack, keys.shardIn(partition, partitions));
            output.collect(record);
        }
    }

    /**
     * Sends source offsets to every partition.
     *
     * @param subtask of place that sends them
     */
    void offsets(int subtask, long[] offsets) {
        for (int partition = 0; partition < partitions; partition++) {
            write.offsets(subtask, offsets, keys.shardIn(partition, partitions));
            output.collect(record);
        }
    }
}
