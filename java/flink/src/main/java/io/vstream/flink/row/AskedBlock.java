package io.vstream.flink.row;

import io.vstream.nativecore.Asked;
import io.vstream.nativecore.RowFields;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Writes and reads what a query asks beside the nearest rows; one byte if that is nothing. */
public final class AskedBlock {

    private static final int ASKS = 1;
    private static final int PAYLOAD = 2;
    private static final int NAMES = 4;
    private static final int GROUP = 8;
    private static final int ORDER = 16;

    private AskedBlock() {}

    /** Writes {@code asked}. */
    public static void write(Asked asked, DataOutputView out) throws IOException {
        if (asked.isNothing()) {
            out.writeByte(0);
            return;
        }
        out.writeByte(
                ASKS
                        | (asked.payload() ? PAYLOAD : 0)
                        | (asked.names() ? NAMES : 0)
                        | (asked.group().isEmpty() ? 0 : GROUP)
                        | (asked.order().isEmpty() ? 0 : ORDER));
        RowFieldsBlock.write(asked.filter(), out);
        out.writeShort(asked.columns().length);
        for (short column : asked.columns()) {
            out.writeShort(column);
        }
        out.writeFloat(asked.radius());
        if (!asked.group().isEmpty()) {
            RowFieldsBlock.write(asked.group().getBytes(StandardCharsets.UTF_8), out);
        }
        if (!asked.order().isEmpty()) {
            RowFieldsBlock.write(asked.order().getBytes(StandardCharsets.UTF_8), out);
        }
    }

    /** Reads what {@link #write} wrote. */
    public static Asked read(DataInputView in) throws IOException {
        int flags = in.readByte();
        if (flags == 0) {
            return Asked.NOTHING;
        }
        byte[] filter = RowFieldsBlock.bytes(in);
        int size = in.readUnsignedShort();
        short[] columns = size == 0 ? RowFields.NO_COLUMNS : new short[size];
        for (int i = 0; i < size; i++) {
            columns[i] = in.readShort();
        }
        float radius = in.readFloat();
        String group =
                (flags & GROUP) == 0
                        ? ""
                        : new String(RowFieldsBlock.bytes(in), StandardCharsets.UTF_8);
        String order =
                (flags & ORDER) == 0
                        ? ""
                        : new String(RowFieldsBlock.bytes(in), StandardCharsets.UTF_8);
        boolean payload = (flags & PAYLOAD) != 0;
        return new Asked(filter, columns, payload, (flags & NAMES) != 0, radius, group, order);
    }
}
