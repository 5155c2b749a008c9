package io.vstream.flink.job;

import io.vstream.flink.source.Script.Player;
import io.vstream.flink.source.ScriptSplit;
import java.io.IOException;

/** Plays the records of another player, changed or with others between them. */
abstract class PlayerOfWrites implements Player {

    /** The other player, which says where this one is. */
    protected final Player writes;

    PlayerOfWrites(Player writes) {
        this.writes = writes;
    }

    @Override
    public ScriptSplit position() {
        return writes.position();
    }

    @Override
    public int phase() {
        return writes.phase();
    }

    @Override
    public int waiting() {
        return writes.waiting();
    }

    @Override
    public long measuredSince() {
        return writes.measuredSince();
    }

    @Override
    public void close() throws IOException {
        writes.close();
    }
}
