package io.vstream.nativecore;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongConsumer;

/**
 * Owns one native object and closes it once.
 *
 * <p>The number is a slot and a generation of a table on the native side, never a pointer, so a
 * stale one is refused there too. The {@link Cleaner} frees nothing: it only reports an owner that
 * was collected without {@code close}, because a leak that is silently repaired stays in the code.
 */
final class NativeHandle implements AutoCloseable {

    private static final Logger LOG = System.getLogger(NativeHandle.class.getName());
    private static final Cleaner LEAKS = Cleaner.create();

    /** Of frequent handles. */
    private static final int WATCHED_ONE_IN = 1024;

    private final String owner;
    private final long number;
    private final LongConsumer destroy;
    private final AtomicBoolean closed = new AtomicBoolean();

    /**
     * @param owner what the handle is, for messages
     * @param number the native handle
     * @param destroy frees the native object; called at most once
     */
    NativeHandle(String owner, long number, LongConsumer destroy) {
        this(owner, number, destroy, true);
    }

    private NativeHandle(String owner, long number, LongConsumer destroy, boolean watched) {
        this.owner = owner;
        this.number = number;
        this.destroy = destroy;
        if (watched) {
            LEAKS.register(this, new LeakAlarm(owner, closed, new Throwable("it was opened here")));
        }
    }

    /**
     * A handle of a kind that is made for every query: the watch costs a stack trace and a lock
     * that all threads share, so only some are watched. A leak shows all the same, as it is
     * repeated.
     *
     * @param owner what the handle is, for messages
     * @param number the native handle
     * @param destroy frees the native object; called at most once
     */
    static NativeHandle frequent(String owner, long number, LongConsumer destroy) {
        boolean watched = ThreadLocalRandom.current().nextInt(WATCHED_ONE_IN) == 0;
        return new NativeHandle(owner, number, destroy, watched);
    }

    /** The native handle; throws CLOSED after {@link #close}. */
    long number() {
        if (closed.get()) {
            throw new EngineException(
                    EngineException.Kind.CLOSED, "This " + owner + " is closed; open a new one.");
        }
        return number;
    }

    /** Frees the native object; the second and every later call does nothing. */
    @Override
    public void close() {
        if (closed.compareAndSet(false, true)) {
            destroy.accept(number);
        }
    }

    /** Holds no reference to the handle, or the handle would never be collected. */
    private record LeakAlarm(String owner, AtomicBoolean closed, Throwable opened)
            implements Runnable {
        @Override
        public void run() {
            if (!closed.get()) {
                LOG.log(
                        Level.WARNING,
                        "A " + owner + " was dropped without close(); its memory is lost.",
                        opened);
            }
        }
    }
}
