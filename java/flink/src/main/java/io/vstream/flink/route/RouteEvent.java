package io.vstream.flink.route;

import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * What place and the query routers are told by broadcast: a new template, or that one place subtask
 * has finished moving its rows to where a template says.
 *
 * @param epoch of the template
 * @param template its bytes; empty for a mark
 * @param subtask of place that has settled; 0 for a template
 * @param subtasks of place in all; 0 for a template
 */
public record RouteEvent(long epoch, byte[] template, int subtask, int subtasks) {

    private static final byte[] NONE = new byte[0];
    private static final int TEMPLATE_BYTES_MAX = 1 << 28;

    /** Type of a stream of these. */
    public static final RecordType<RouteEvent> TYPE =
            RecordType.of(RouteEvent.class, RouteEventSerializer::new);

    /** A new template. */
    public static RouteEvent template(long epoch, byte[] template) {
        return new RouteEvent(epoch, template, 0, 0);
    }

    /** One of {@code subtasks} place tasks has moved all its rows. */
    public static RouteEvent settled(long epoch, int subtask, int subtasks) {
        return new RouteEvent(epoch, NONE, subtask, subtasks);
    }

    /** True for a template, false for a mark. */
    public boolean isTemplate() {
        return subtasks == 0;
    }

    private static final class RouteEventSerializer extends RecordSerializer<RouteEvent> {
        private static final long serialVersionUID = 1L;

        @Override
        public TypeSerializer<RouteEvent> duplicate() {
            return new RouteEventSerializer();
        }

        @Override
        public RouteEvent createInstance() {
            return new RouteEvent(0, NONE, 0, 0);
        }

        @Override
        public RouteEvent copy(RouteEvent from) {
            return from;
        }

        @Override
        public void serialize(RouteEvent event, DataOutputView target) throws IOException {
            target.writeLong(event.epoch);
            target.writeInt(event.subtask);
            target.writeInt(event.subtasks);
            target.writeInt(event.template.length);
            target.write(event.template);
        }

        @Override
        public RouteEvent deserialize(DataInputView source) throws IOException {
            long epoch = source.readLong();
            int subtask = source.readInt();
            int subtasks = source.readInt();
            int length = source.readInt();
            if (length < 0 || length > TEMPLATE_BYTES_MAX) {
                throw new IOException("A template claims " + length + " bytes.");
            }
            byte[] template = new byte[length];
            source.readFully(template);
            return new RouteEvent(epoch, template, subtask, subtasks);
        }
    }
}
