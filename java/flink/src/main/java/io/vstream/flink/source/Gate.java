package io.vstream.flink.source;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Holds a source back at a stage of its script until the code that runs the job lets it go on: the
 * job runner waits until preloaded rows are in the index before it starts to measure.
 *
 * <p>A source that starts again shuts it: the rows that a restart takes back must be in the index
 * anew before queries follow.
 *
 * <p>It works within one process. On a cluster nobody opens a gate, so a source that finds none
 * under its name goes on at once.
 */
public final class Gate {

    private static final Map<String, Gate> GATES = new ConcurrentHashMap<>();

    private final boolean kept;
    private volatile int openUpTo = -1;
    private int rounds;

    private Gate(boolean kept) {
        this.kept = kept;
    }

    /** Makes a closed gate that sources of this process find by {@code name}. */
    public static Gate install(String name) {
        Gate gate = new Gate(true);
        GATES.put(name, gate);
        return gate;
    }

    /** Forgets a gate; sources that still use it keep it. */
    public static void release(String name) {
        GATES.remove(name);
    }

    /** The gate of that name, or an open one. */
    static Gate find(String name) {
        Gate gate = GATES.get(name);
        if (gate == null) {
            gate = new Gate(false);
            gate.open(Integer.MAX_VALUE);
        }
        return gate;
    }

    /** Lets sources pass {@code stage} and every one before it. */
    public synchronized void open(int stage) {
        openUpTo = Math.max(openUpTo, stage);
    }

    /** The same, unless a source has shut the gate since {@code round}. */
    public synchronized void open(int stage, int round) {
        if (round == rounds) {
            open(stage);
        }
    }

    /** How often the gate was shut. */
    public synchronized int round() {
        return rounds;
    }

    /** Lets no source pass, as at the beginning; a gate that nobody keeps stays open. */
    synchronized void shut() {
        if (kept) {
            openUpTo = -1;
            rounds++;
        }
    }

    /** True if a source may pass {@code stage}. */
    public boolean passes(int stage) {
        return stage <= openUpTo;
    }
}
