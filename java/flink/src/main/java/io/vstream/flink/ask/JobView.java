package io.vstream.flink.ask;

import io.vstream.flink.handover.CommandAck;
import io.vstream.flink.ingest.Asking;
import io.vstream.flink.ingest.LineParser;
import io.vstream.flink.merge.AnswerMaker;
import io.vstream.flink.published.PublishedFile;
import io.vstream.flink.published.PublishedPartitions;
import io.vstream.flink.published.PublishedTemplates;
import io.vstream.flink.row.Schema;
import io.vstream.flink.search.ReadReply;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.NativeRouter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import org.apache.flink.core.fs.Path;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** What a job has published, and what follows from it for questions. Not for several threads. */
final class JobView implements AutoCloseable {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final byte[] source;
    private final PublishedPartitions partitions;
    private final PublishedTemplates templates;
    private final int dimension;
    private final List<NativeRouter> routers = new ArrayList<>();
    private final ByteBuffer query;
    private final ByteBuffer visits;
    private final Schema schema;
    private final Asking asking;
    private LineParser lines;
    private final AnswerMaker answers;

    private JobView(byte[] source, PublishedTemplates templates) throws IOException {
        this.source = source;
        this.partitions = PublishedPartitions.of(source);
        this.templates = templates;
        JsonNode collection = JSON.readTree(partitions.collection());
        this.dimension = collection.path("dimension").asInt();
        schema = Schema.fromJson(collection);
        query = BufferLayout.allocate(BufferLayout.vectorBytes(dimension));
        visits = BufferLayout.allocate(count() * BufferLayout.PARTITION_BYTES);
        asking = new Asking(schema, partitions.collection());
        answers = new AnswerMaker(schema);
        boolean first = templates.changing() && templates.older().length == 0;
        if (templates.epoch() > 0 && !first) {
            routers.add(NativeRouter.fromBytes(templates.newer()));
            if (templates.changing()) {
                routers.add(NativeRouter.fromBytes(templates.older()));
            }
        }
    }

    /**
     * Reads what is published.
     *
     * @return null if nothing is, or not yet
     */
    static JobView read(Path folder) throws IOException {
        byte[] partitions = PublishedFile.read(PublishedPartitions.path(folder));
        byte[] templates = PublishedFile.read(PublishedTemplates.path(folder));
        return partitions == null || templates == null
                ? null
                : new JobView(partitions, PublishedTemplates.of(templates));
    }

    /** False if partitions are elsewhere by now. */
    boolean isCurrent(Path folder) throws IOException {
        byte[] now = PublishedFile.read(PublishedPartitions.path(folder));
        return now == null || Arrays.equals(now, source);
    }

    PublishedPartitions partitions() {
        return partitions;
    }

    int count() {
        return partitions.addresses().size();
    }

    int dimension() {
        return dimension;
    }

    /** Reads questions from lines. */
    LineParser lines(int usualK) {
        if (lines == null) {
            lines = new LineParser(usualK, schema);
        }
        return lines;
    }

    Asking asking() {
        return asking;
    }

    AnswerMaker answers() {
        return answers;
    }

    /**
     * The partitions that may hold an answer, ascending.
     *
     * @param everywhere true for a question whose answer may be anywhere: see the router of the job
     */
    List<Integer> choose(float[] vector, boolean everywhere) {
        TreeSet<Integer> chosen = new TreeSet<>();
        if (everywhere || routers.isEmpty()) {
            for (int i = 0; i < count(); i++) {
                chosen.add(i);
            }
        } else {
            BufferLayout.putVector(query, 0, vector);
            for (NativeRouter router : routers) {
                int visited = router.fanOut(query, count(), visits);
                for (int i = 0; i < visited; i++) {
                    chosen.add(visits.getInt(i * BufferLayout.PARTITION_BYTES));
                }
            }
        }
        return List.copyOf(chosen);
    }

    /**
     * True if no row can be missing between these answers.
     *
     * <ul>
     *   <li>Rows are placed by a template only after all partitions have heard of it. So a
     *       partition that has not heard of a newer one than {@code templates} was rightly chosen,
     *       or rightly left out, at the moment of its answer.
     *   <li>An old owner lets rows go only after all new owners have them, at the step "settle". So
     *       answers from before it go together, and answers from after it do.
     * </ul>
     *
     * @param all true if every partition was asked
     */
    boolean fits(List<ReadReply> replies, boolean all) {
        boolean known =
                all
                        || replies.stream()
                                .allMatch(
                                        reply ->
                                                reply.run() == templates.run()
                                                        && CommandAck.epoch(reply.position())
                                                                <= templates.epoch());
        return known
                && replies.stream()
                                .mapToLong(reply -> CommandAck.settled(reply.position()))
                                .distinct()
                                .count()
                        <= 1;
    }

    @Override
    public void close() {
        routers.forEach(NativeRouter::close);
        asking.close();
    }
}
