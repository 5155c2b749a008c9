package io.vstream.nativecore;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * What became of a batch of records. Each of them was applied, or was older than what is there, but
 * for these.
 *
 * @param withoutRow updates of rows that are not there
 * @param refused records that may not be stored; in their order in the batch
 */
public record Written(int withoutRow, List<Refused> refused) {

    /** Every record had its effect. */
    static final Written ALL = new Written(0, List.of());

    /** Why a record was refused. The order is the wire code, shared with {@code written.rs}. */
    public enum Reason {
        /** Another reason, which the text gives. */
        REFUSED,
        /** The collection has no attribute of that column. */
        UNKNOWN_ATTRIBUTE,
        /** A value has another type than its attribute. */
        WRONG_TYPE,
        /** The attributes or the payload of the row are or would become too large. */
        TOO_LARGE,
        /** The id is of another kind, or has the hash of another one. */
        BAD_ID,
        /** The group has the hash of another one. */
        BAD_GROUP;

        private static final Reason[] BY_CODE = values();

        /** The reason of a wire code; an unknown one is told by its text alone. */
        static Reason ofCode(int code) {
            return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : REFUSED;
        }
    }

    /**
     * A record that had no effect.
     *
     * @param record its number in the batch, from 0
     * @param reason why, for counters
     * @param text a full sentence that says what is allowed
     */
    public record Refused(int record, Reason reason, String text) {}

    /** Reads what {@code written.rs} draws; null stands for {@link #ALL}. */
    static Written read(byte[] bytes) {
        if (bytes == null) {
            return ALL;
        }
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int withoutRow = in.getInt();
        int count = in.getInt();
        List<Refused> refused = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int record = in.getInt();
            Reason reason = Reason.ofCode(in.getInt());
            byte[] text = new byte[in.getInt()];
            in.get(text);
            refused.add(new Refused(record, reason, new String(text, StandardCharsets.UTF_8)));
        }
        return new Written(withoutRow, List.copyOf(refused));
    }
}
