package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.merge.AnswerMaker;
import io.vstream.flink.row.Schema;
import io.vstream.nativecore.AnswerBatch;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.NativeEngine;
import io.vstream.nativecore.NativeGroups;
import io.vstream.nativecore.QueryBatch;
import io.vstream.nativecore.RowFields;
import io.vstream.nativecore.VectorBatch;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NeighborsTest {

    private static final int SHARDS = 128;
    private static final int ROWS = 8;
    private static final String SETTINGS =
            "{\"dimension\":2,\"metric\":\"l2\",\"seed\":7,\"attributes\":{\"sent\":\"f64\"},"
                    + "\"groups\":{\"mode\":\"isolated\"}}";

    @TempDir private Path folder;

    /**
     * A query for the newest mails. Times in milliseconds are one number in 32 bits for two
     * minutes, so that merge put such rows in the order of their ids.
     */
    @Test
    void anAnswerHasTheOrderOfTheStoreAlsoAcrossSlices() throws Exception {
        List<Neighbors> parts = new ArrayList<>();
        try (NativeEngine engine = NativeEngine.createIn(SETTINGS, folder, 0, SHARDS - 1)) {
            for (String slice : new String[] {"ann", "bob"}) {
                VectorBatch batch = new VectorBatch(2, 8 * ROWS);
                int shard = NativeGroups.shard(7, SHARDS, slice);
                int odd = slice.equals("bob") ? 1 : 0;
                for (int id = odd; id < ROWS; id += 2) {
                    RowFields sent = RowFields.of("", 0, sent(1.7e12 + id), null).in(slice);
                    batch.upsert(id, 1, 0, shard, new float[] {id, 1}, sent);
                }
                engine.write(batch.buffer(), batch.count());
                QueryBatch queries = new QueryBatch(2, 1);
                String order = "{\"rank\":\"attribute(sent)\",\"vector\":false}";
                queries.add(ROWS, 0, new float[2], Asked.NOTHING.in(slice, order));
                AnswerBatch answers = new AnswerBatch();
                answers.search(engine, queries);
                assertThat(answers.next()).isTrue();
                parts.add(travelled(Neighbors.of(answers)));
            }
        }
        assertThat(answer(parts.subList(0, 1))).containsExactly(6, 4, 2, 0);
        assertThat(answer(parts)).containsExactly(7, 6, 5, 4, 3, 2, 1, 0);
    }

    private static long[] answer(List<Neighbors> parts) {
        Ticket ticket = new Ticket(1, 1, ROWS, 0, 0, false);
        Answer answer =
                new AnswerMaker(Schema.PLAIN)
                        .make(ticket, parts, parts.size(), false, Frontier.NONE);
        assertThat(answer.distances()).containsOnly(-1.7e12f);
        return answer.ids();
    }

    /** As they come to merge. */
    private static Neighbors travelled(Neighbors rows) throws Exception {
        DataOutputSerializer out = new DataOutputSerializer(64);
        rows.write(out);
        return Neighbors.read(new DataInputDeserializer(out.getCopyOfBuffer()));
    }

    private static byte[] sent(double time) {
        return ByteBuffer.allocate(3 + Double.BYTES)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putShort((short) 0)
                .put((byte) 3)
                .putDouble(time)
                .array();
    }
}
