package io.vstream.flink.place;

import io.vstream.flink.handover.Command;
import io.vstream.flink.handover.TemplateState;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;

/**
 * The template that rows are placed by, and its change for the next one.
 *
 * <ol>
 *   <li>"announce" brings the next template, which is kept for now.
 *   <li>"switch" puts it in use. From now on ranges have an old and a new owner.
 *   <li>"done" ends that: the new owners have all rows.
 * </ol>
 *
 * All of it is in every checkpoint, so a restored subtask goes on in the same step.
 */
final class TemplateSwitch implements AutoCloseable {

    private final Placements placements;

    /** True if the template in use was learned. */
    private boolean learned;

    private NativeRouter next;
    private MovedRanges moves;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every vector
     * @param state what was restored
     */
    TemplateSwitch(String collection, int dimension, TemplateState state) {
        byte[] known = state.take(TemplateState.TEMPLATE);
        learned = known != null;
        NativeRouter router =
                learned ? NativeRouter.fromBytes(known) : NativeRouter.unplaced(collection);
        placements = new Placements(dimension, router);
        byte[] announced = state.take(TemplateState.NEXT);
        next = announced == null ? null : NativeRouter.fromBytes(announced);
        byte[] pending = state.take(TemplateState.MOVES);
        moves = pending == null ? null : new MovedRanges(pending);
    }

    /**
     * Writes it into a checkpoint.
     *
     * @param subtask index of the subtask
     */
    void snapshot(TemplateState state, int subtask) throws Exception {
        state.snapshot(subtask, learned ? placements.router() : null, next, moves);
    }

    /** Places rows by the template in use. */
    Placements placements() {
        return placements;
    }

    /** Ranges with two owners; null if there are none. */
    MovedRanges moves() {
        return moves;
    }

    /** Epoch of the last hand-over that is done; 0 for a template that needs no training. */
    long epochDone() {
        return learned ? placements.epoch() - (moves == null ? 0 : 1) : 0;
    }

    /** Keeps the next template. */
    void announce(Command command) {
        if (command.epoch() > placements.epoch()) {
            forgetNext();
            next = NativeRouter.fromBytes(command.template());
        }
    }

    /** Puts the announced template in use; false if it is in use. */
    boolean change(Command command) {
        if (command.epoch() <= placements.epoch()) {
            return false;
        }
        placements.use(next);
        learned = true;
        next = null;
        moves = new MovedRanges(command.moves());
        return true;
    }

    /** Leaves every range to its new owner; false if it has one owner. */
    boolean end(Command command) {
        if (moves == null || command.epoch() != placements.epoch()) {
            return false;
        }
        moves = null;
        return true;
    }

    private void forgetNext() {
        if (next != null) {
            next.close();
            next = null;
        }
    }

    @Override
    public void close() {
        forgetNext();
        placements.close();
    }
}
