package io.vstream.flink.handover;

/** Steps of a hand-over, in order: docs/design/handover.md tells what each is for. */
public enum Step {
    /** Queries visit the old owners and the new ones. */
    ANNOUNCE,
    /** Writes go to the new owners, which remember deletes; the old ones seal their rows. */
    SWITCH,
    /** The new owners take the sealed rows in. */
    ADOPT,
    /** Queries visit the new owners alone; the old ones drop the rows. */
    SETTLE,
    /** Deletes visit the new owners alone. */
    DONE;

    private static final Step[] ALL = values();

    /** The step of an ordinal that was stored or sent. */
    public static Step of(int ordinal) {
        return ALL[ordinal];
    }

    /** The step after this one; the last one has none. */
    public Step next() {
        return ALL[ordinal() + 1];
    }
}
