package io.vstream.flink.place;

import io.vstream.flink.handover.Command;
import io.vstream.nativecore.MovedRanges;
import io.vstream.nativecore.NativeRouter;
import org.apache.flink.api.common.state.BroadcastState;

/**
 * The template that rows are placed by, and its change for the next one.
 *
 * <ol>
 *   <li>"announce" brings the next template, which is kept for now.
 *   <li>"switch" puts it in use. From now on ranges have an old and a new owner.
 *   <li>"done" ends that: the new owners have all rows.
 * </ol>
 *
 * All of it is broadcast state, so a restored subtask goes on in the same step.
 */
final class TemplateSwitch implements AutoCloseable {

    /** Key of the template in use. */
    private static final Integer TEMPLATE = 0;

    /** Key of the announced template. */
    private static final Integer NEXT = 1;

    /** Key of the ranges with two owners; there from "switch" to "done". */
    private static final Integer MOVES = 2;

    private final BroadcastState<Integer, byte[]> state;
    private final Placements placements;
    private MovedRanges moves;

    /**
     * @param collection normalised settings as JSON
     * @param dimension elements of every vector
     */
    TemplateSwitch(String collection, int dimension, BroadcastState<Integer, byte[]> state)
            throws Exception {
        this.state = state;
        byte[] known = state.get(TEMPLATE);
        NativeRouter router =
                known == null ? NativeRouter.unplaced(collection) : NativeRouter.fromBytes(known);
        placements = new Placements(dimension, router);
        byte[] pending = state.get(MOVES);
        moves = pending == null ? null : new MovedRanges(pending);
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
    long epochDone() throws Exception {
        return state.get(TEMPLATE) == null ? 0 : placements.epoch() - (moves == null ? 0 : 1);
    }

    /** Keeps the next template. */
    void announce(Command command) throws Exception {
        if (command.epoch() > placements.epoch()) {
            state.put(NEXT, command.template());
        }
    }

    /** Puts the announced template in use; false if it is in use. */
    boolean change(Command command) throws Exception {
        if (command.epoch() <= placements.epoch()) {
            return false;
        }
        byte[] next = state.get(NEXT);
        state.put(TEMPLATE, next);
        state.remove(NEXT);
        state.put(MOVES, command.moves());
        placements.use(NativeRouter.fromBytes(next));
        moves = new MovedRanges(command.moves());
        return true;
    }

    /** Leaves every range to its new owner; false if it has one owner. */
    boolean end(Command command) throws Exception {
        if (moves == null || command.epoch() != placements.epoch()) {
            return false;
        }
        state.remove(MOVES);
        moves = null;
        return true;
    }

    @Override
    public void close() {
        placements.close();
    }
}
