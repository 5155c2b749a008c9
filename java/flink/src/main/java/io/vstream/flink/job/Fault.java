package io.vstream.flink.job;

import java.util.EnumSet;
import java.util.Locale;

/** Deliberate defects. Tests switch one on to prove that they would notice it; nobody else does. */
public enum Fault {
    /** Place forgets to send deletes to the index. */
    DROP_DELETE,
    /** Search loses the lower half of the shards that it should restore. */
    FORGET_SHARDS_ON_RESTORE,
    /** Place leaves the old copy where it was when a record moves. */
    DUPLICATE_ON_MOVE,
    /** Merge counts the partial answers of odd partitions but drops their rows. */
    MERGE_LOSES_PARTIAL,
    /** Place gives an update a smaller version than the record has. */
    STALE_VERSION_WINS;

    /** Name in settings. */
    public String key() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** The fault of that name. */
    static Fault of(String key) {
        for (Fault fault : values()) {
            if (fault.key().equals(key)) {
                return fault;
            }
        }
        throw new IllegalArgumentException(
                "Unknown fault '" + key + "'; choose from " + EnumSet.allOf(Fault.class) + ".");
    }
}
