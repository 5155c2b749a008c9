package io.vstream.flink.state;

import java.util.Collection;
import org.apache.flink.state.rocksdb.RocksDBOptionsFactory;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;

/**
 * Options of RocksDB with which no checkpoint uploads the places of all rows.
 *
 * <p>Rows change in no order, so the few changes of a checkpoint meet every table of the level into
 * which they are merged. By default that is one level of up to 256 MiB, rewritten whole after four
 * checkpoints. Here what changed goes on after two, into a small level, and from there table by
 * table through levels four times as large.
 */
public final class SmallUploads implements RocksDBOptionsFactory {

    private static final long serialVersionUID = 1L;

    /** Most bytes of the first level below the newest tables. */
    private static final long FIRST_LEVEL_BYTES = 1 << 20;

    /** How many times as large as the level above a level is. */
    private static final int LEVEL_RATIO = 4;

    /** Bytes of a table of that level; twice as many in each level below. */
    private static final long TABLE_BYTES = 256 << 10;

    @Override
    public DBOptions createDBOptions(DBOptions current, Collection<AutoCloseable> toClose) {
        return current;
    }

    @Override
    public ColumnFamilyOptions createColumnOptions(
            ColumnFamilyOptions current, Collection<AutoCloseable> toClose) {
        return current.setLevelCompactionDynamicLevelBytes(true)
                .setLevel0FileNumCompactionTrigger(2)
                .setMaxBytesForLevelBase(FIRST_LEVEL_BYTES)
                .setMaxBytesForLevelMultiplier(LEVEL_RATIO)
                .setTargetFileSizeBase(TABLE_BYTES)
                .setTargetFileSizeMultiplier(2);
    }
}
