package io.vstream.flink.ingest;

import io.vstream.flink.row.Refusal;
import io.vstream.flink.state.RecordSerializer;
import io.vstream.flink.state.RecordType;
import io.vstream.nativecore.Written;
import java.io.IOException;
import java.lang.reflect.Type;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInfoFactory;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.util.OutputTag;

/**
 * A record that was refused; it goes to a side output and the job keeps running. It may be kept in
 * the state of any operator.
 *
 * @param reason why
 * @param text what was refused and what to change, at most a few hundred characters
 */
@TypeInfo(BadRecord.Types.class)
public record BadRecord(Reason reason, String text) {

    /** Why a record was refused. The name in lower case is its name in metrics. */
    public enum Reason {
        /** Not an object, or not bytes, with the parts that a record needs. */
        MALFORMED_LINE,
        /** A line or message longer than any record can be. */
        LINE_TOO_LONG,
        /**
         * An id that is no whole number from 0 to 2^64 - 1, or no text of 1 to 512 bytes where ids
         * are texts.
         */
        BAD_ID,
        /** The vector does not have the collection's dimension. */
        WRONG_DIMENSION,
        /** The vector holds NaN or infinity. */
        NOT_FINITE,
        /** The collection's element cannot hold a value: see {@link Element}. */
        NOT_OF_ELEMENT,
        /** The metric is cosine and the vector is zero, or too long for its norm to be a number. */
        ZERO_NORM,
        /** k is not between 1 and 1,000. */
        BAD_K,
        /** Effort is neither auto nor exact nor a number of leaves. */
        BAD_EFFORT,
        /** The engine refused the record for another reason, which the text gives. */
        REFUSED,
        /** The metric is not cosine and the norm of the vector is above 1e15. */
        NORM_TOO_LARGE,
        /** The collection has no attribute of that name. */
        UNKNOWN_ATTRIBUTE,
        /** A value has another type than its attribute. */
        WRONG_TYPE,
        /** A keyword, a list, all attributes together or the payload are too large. */
        TOO_LARGE,
        /** A filter that is none, or none of this collection. */
        BAD_FILTER,
        /** A radius that is no number. */
        BAD_RADIUS,
        /**
         * No group, or one whose name has more than 512 bytes, where rows are in isolated groups; a
         * group where they are in none.
         */
        BAD_GROUP,
        /** Words or a rank expression that no partition could evaluate. */
        BAD_RANK;

        private static final Reason[] ALL = values();

        /** The reason of a refusal. */
        static Reason of(Refusal refusal) {
            return refusal == null ? null : valueOf(refusal.name());
        }

        /** The reason for which an engine refused a record. */
        public static Reason of(Written.Reason reason) {
            return valueOf(reason.name());
        }

        /** Name in metrics and reports. */
        public String metric() {
            return name().toLowerCase(java.util.Locale.ROOT);
        }
    }

    private static final int TEXT_MAX = 300;

    /** Type of a stream of these. */
    public static final RecordType<BadRecord> TYPE =
            RecordType.of(BadRecord.class, BadRecordSerializer::new);

    /** The side output of decode, place and search. */
    public static final OutputTag<BadRecord> TAG = new OutputTag<>("bad-records", TYPE);

    /** Shortens a text that is too long. */
    public BadRecord {
        if (text.length() > TEXT_MAX) {
            text = text.substring(0, TEXT_MAX) + " ...";
        }
    }

    /** Finds {@link #TYPE}; called by Flink. */
    public static final class Types extends TypeInfoFactory<BadRecord> {
        @Override
        public TypeInformation<BadRecord> createTypeInfo(
                Type type, Map<String, TypeInformation<?>> parameters) {
            return TYPE;
        }
    }

    /** Layout 1: the number of the reason in {@link Reason}, which only grows, and the text. */
    private static final class BadRecordSerializer extends RecordSerializer<BadRecord> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<BadRecord> duplicate() {
            return new BadRecordSerializer();
        }

        @Override
        public BadRecord createInstance() {
            return new BadRecord(Reason.REFUSED, "");
        }

        @Override
        public BadRecord copy(BadRecord from) {
            return from;
        }

        @Override
        public void serialize(BadRecord record, DataOutputView target) throws IOException {
            target.writeByte(record.reason.ordinal());
            target.writeUTF(record.text);
        }

        @Override
        public BadRecord deserialize(DataInputView source) throws IOException {
            return new BadRecord(Reason.ALL[source.readByte()], source.readUTF());
        }

        @Override
        public TypeSerializerSnapshot<BadRecord> snapshotConfiguration() {
            return new Layout();
        }
    }

    /** Layout of the bytes. */
    public static final class Layout extends RecordSerializer.Snapshot<BadRecord> {
        /** Called by Flink. */
        public Layout() {
            super(1);
        }

        @Override
        public TypeSerializer<BadRecord> restoreSerializer() {
            return new BadRecordSerializer();
        }
    }
}
