package io.vstream.flink.control;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.streaming.api.operators.collect.CollectCoordinationResponse;

/**
 * Byte arrays as a coordinator's answer. A class of Flink's carries them: a task that reads an
 * answer knows Flink's classes and not those of the job.
 */
final class BytesResponse {

    private BytesResponse() {}

    static CoordinationResponse of(List<byte[]> arrays) {
        return of(arrays, 0);
    }

    /** With a number, which is the answer's offset to Flink. */
    static CoordinationResponse of(List<byte[]> arrays, long number) {
        List<byte[]> written = new ArrayList<>(arrays.size());
        try {
            for (byte[] array : arrays) {
                DataOutputSerializer bytes = new DataOutputSerializer(Integer.BYTES + array.length);
                BytePrimitiveArraySerializer.INSTANCE.serialize(array, bytes);
                written.add(bytes.getCopyOfBuffer());
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return new CollectCoordinationResponse("", number, written);
    }

    static List<byte[]> read(CoordinationResponse answer) throws IOException {
        return ((CollectCoordinationResponse) answer)
                .getResults(BytePrimitiveArraySerializer.INSTANCE);
    }
}
