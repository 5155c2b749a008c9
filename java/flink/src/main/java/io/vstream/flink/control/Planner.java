package io.vstream.flink.control;

import io.vstream.nativecore.EngineException;
import io.vstream.nativecore.NativeRouter;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Looks for a better template. Depends on nothing but its arguments, so any thread may run it. */
final class Planner {

    private static final Logger LOG = LoggerFactory.getLogger(Planner.class);
    private static final byte[] NONE = new byte[0];

    private final RebalanceSettings settings;
    private final String collection;

    Planner(RebalanceSettings settings, String collection) {
        this.settings = settings;
        this.collection = collection;
    }

    /**
     * The input of a plan.
     *
     * @param template in use
     * @param partitions of the job
     * @param loads rows and work by bucket
     * @param sample rows that live now; null if nothing is to be learned
     * @param share of all rows that the sample holds
     */
    record Input(byte[] template, int partitions, ByteBuffer loads, byte[] sample, double share) {}

    /**
     * The result.
     *
     * @param template the better one; empty if there is none
     * @param cells of the template in use; 0 with the encoder lsh
     * @param learned true if the better one was learned from the sample
     */
    record Plan(byte[] template, int cells, boolean learned) {}

    /** Takes milliseconds, or seconds if there is something to learn. */
    Plan plan(Input now) {
        try (NativeRouter router = NativeRouter.fromBytes(now.template)) {
            int cells = router.cells();
            if (!router.movable()) {
                return new Plan(NONE, cells, false);
            }
            byte[] learned = cells == 0 || now.sample == null ? null : learn(router, now);
            if (learned != null) {
                return new Plan(learned, cells, true);
            }
            return new Plan(
                    router.rebalance(now.loads, now.partitions, settings.limits()), cells, false);
        } catch (EngineException e) {
            // A template of an older version, which stays as it is.
            LOG.warn("The template cannot be changed: {}", e.getMessage());
            return new Plan(NONE, 0, false);
        }
    }

    private byte[] learn(NativeRouter router, Input now) {
        long began = System.nanoTime();
        try {
            byte[] learned =
                    router.retrain(
                            collection,
                            now.loads,
                            now.sample,
                            now.share,
                            now.partitions,
                            settings.limits());
            LOG.info(
                    "A template was learned in {} ms.",
                    TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
            return learned;
        } catch (EngineException e) {
            // Too few rows as yet: what is known stays known.
            LOG.info("Nothing was learned: {}", e.getMessage());
            return null;
        }
    }
}
