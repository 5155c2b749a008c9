package io.vstream.flink.fault;

import java.io.IOException;
import java.util.EnumSet;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/**
 * Deliberate defects, and failures at a chosen point. Tests switch one on to prove that they would
 * notice it, or that it does no harm; nobody else does.
 */
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
    STALE_VERSION_WINS,
    /** The first attempt fails when a hand-over is announced to a partition. */
    FAIL_IN_ANNOUNCE,
    /** The first attempt fails when a partition seals rows. */
    FAIL_IN_SEAL,
    /** The first attempt fails when a partition has adopted some rows. */
    FAIL_IN_ADOPT,
    /** The first attempt fails when a partition has dropped some rows. */
    FAIL_IN_SETTLE,
    /**
     * Now and then the process is killed, as {@code kill -9} does it, in one of the four moments
     * above: by chance, since what follows depends on time anyway.
     */
    KILL_IN_HAND_OVER;

    /** Ends this process by the kernel's hand: nothing of Java runs any more. */
    public static void killThisProcess() throws IOException {
        String pid = Long.toString(ProcessHandle.current().pid());
        new ProcessBuilder("kill", "-9", pid).start();
        while (true) {
            LockSupport.park();
        }
    }

    /** Name in settings. */
    public String key() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** The fault of that name. */
    public static Fault of(String key) {
        for (Fault fault : values()) {
            if (fault.key().equals(key)) {
                return fault;
            }
        }
        throw new IllegalArgumentException(
                "Unknown fault '" + key + "'; choose from " + EnumSet.allOf(Fault.class) + ".");
    }
}
