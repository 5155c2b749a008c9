package io.vstream.flink.route;

import io.vstream.flink.balance.Mark;
import io.vstream.flink.balance.Step;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.nativecore.MovedRanges;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A command of the control task to place tasks and query routers, by broadcast; or a new template
 * on its way from the trainer to the control task.
 *
 * @param run life of the job in which the command is given
 * @param epoch of the template that the hand-over leads to
 * @param step to be obeyed
 * @param template its bytes, with "announce"; else empty
 * @param moves ranges that change hands, see {@link MovedRanges#bytes}
 */
public record RouteEvent(long run, long epoch, Step step, byte[] template, byte[] moves) {

    private static final byte[] NONE = new byte[0];
    private static final int TEMPLATE_BYTES_MAX = 1 << 28;
    private static final int MOVES_BYTES_MAX = 1 << 20;

    /** Type of a stream of these. */
    public static final RecordType<RouteEvent> TYPE =
            RecordType.of(RouteEvent.class, RouteEventSerializer::new);

    /** A new template; without bytes it only says that this epoch was trained once. */
    public static RouteEvent template(long epoch, byte[] template) {
        return new RouteEvent(0, epoch, Step.ANNOUNCE, template, NONE);
    }

    /** What subtask {@code task} says to partitions when it has obeyed. */
    public Mark mark(int task) {
        return new Mark(run, epoch, step, task, new MovedRanges(moves));
    }

    private static final class RouteEventSerializer extends RecordSerializer<RouteEvent> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<RouteEvent> duplicate() {
            return new RouteEventSerializer();
        }

        @Override
        public RouteEvent createInstance() {
            return template(0, NONE);
        }

        @Override
        public RouteEvent copy(RouteEvent from) {
            return from;
        }

        @Override
        public void serialize(RouteEvent event, DataOutputView target) throws IOException {
            target.writeLong(event.run);
            target.writeLong(event.epoch);
            target.writeByte(event.step.ordinal());
            Mark.writeBytes(event.template, target);
            Mark.writeBytes(event.moves, target);
        }

        @Override
        public RouteEvent deserialize(DataInputView source) throws IOException {
            return new RouteEvent(
                    source.readLong(),
                    source.readLong(),
                    Step.of(source.readUnsignedByte()),
                    Mark.readBytes(source, TEMPLATE_BYTES_MAX),
                    Mark.readBytes(source, MOVES_BYTES_MAX));
        }
    }
}
