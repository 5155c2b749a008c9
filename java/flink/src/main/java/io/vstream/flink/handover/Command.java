package io.vstream.flink.handover;

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
 * @param step to be done
 * @param template its bytes, with "announce"; else empty
 * @param moves ranges that change hands, see {@link MovedRanges#bytes}
 */
public record Command(long run, long epoch, Step step, byte[] template, byte[] moves) {

    private static final byte[] NONE = new byte[0];
    private static final int TEMPLATE_BYTES_MAX = 1 << 28;
    private static final int MOVES_BYTES_MAX = 1 << 20;

    /** Type of a stream of these. */
    public static final RecordType<Command> TYPE =
            RecordType.of(Command.class, RouteEventSerializer::new);

    /** A new template; without bytes it only says that this epoch was trained once. */
    public static Command template(long epoch, byte[] template) {
        return new Command(0, epoch, Step.ANNOUNCE, template, NONE);
    }

    /** The acknowledgement that subtask {@code task} sends to partitions when it has done this. */
    public CommandAck ack(int task) {
        return new CommandAck(run, epoch, step, task, new MovedRanges(moves));
    }

    private static final class RouteEventSerializer extends RecordSerializer<Command> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<Command> duplicate() {
            return new RouteEventSerializer();
        }

        @Override
        public Command createInstance() {
            return template(0, NONE);
        }

        @Override
        public Command copy(Command from) {
            return from;
        }

        @Override
        public void serialize(Command event, DataOutputView target) throws IOException {
            target.writeLong(event.run);
            target.writeLong(event.epoch);
            target.writeByte(event.step.ordinal());
            CommandAck.writeBytes(event.template, target);
            CommandAck.writeBytes(event.moves, target);
        }

        @Override
        public Command deserialize(DataInputView source) throws IOException {
            return new Command(
                    source.readLong(),
                    source.readLong(),
                    Step.of(source.readUnsignedByte()),
                    CommandAck.readBytes(source, TEMPLATE_BYTES_MAX),
                    CommandAck.readBytes(source, MOVES_BYTES_MAX));
        }
    }
}
