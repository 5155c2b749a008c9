package io.vstream.flink.ask;

import io.vstream.flink.VectorQuery;
import io.vstream.flink.ingest.BadRecord.Reason;
import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.merge.Answer;
import io.vstream.flink.search.Neighbors;
import io.vstream.flink.search.ReadRefused;
import io.vstream.flink.search.ReadReply;
import io.vstream.flink.search.ReadRequest;
import io.vstream.flink.search.ReadSettings;
import io.vstream.nativecore.Asked;
import io.vstream.nativecore.EngineException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.core.fs.Path;

/**
 * Asks a running job from outside of it, without a topic: reads beside the checkpoints where its
 * partitions answer, asks those that may hold an answer, and merges as the job does.
 *
 * <p>It goes on through a restart, another parallelism and hand-overs: where a partition is gone,
 * or says that it knows another template, the question is asked again until its deadline. An answer
 * is one of the rows of some moment of each partition, with the offsets and the watermark that all
 * of them had reached; it is at most a tenth of a second behind what the job has applied.
 *
 * <p>One question at a time: not for several threads. Each has a connection per partition.
 */
public final class JobReader implements AutoCloseable {

    private static final long RETRY_MILLIS = 20;

    /** How often it looks whether partitions are elsewhere by now. */
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(5);

    private final Path folder;
    private final ReadOptions options;
    private final Map<Integer, PartitionClient> clients = new HashMap<>();
    private JobView view;
    private long lookedNanos;

    /**
     * Asks nothing yet.
     *
     * @param checkpoints folder of the job's checkpoints ({@code execution.checkpointing.dir}), on
     *     any file system that Flink knows here
     * @param search name of the search; empty for the one search of a program without a name
     */
    public JobReader(String checkpoints, String search, ReadOptions options) {
        Path reads = new Path(checkpoints, ReadSettings.FOLDER);
        this.folder = search.isEmpty() ? reads : new Path(reads, search);
        this.options = options;
    }

    /**
     * Asks for the nearest rows.
     *
     * @throws ReadRefused if the question or the key is wrong
     * @throws JobUnavailable if there is no answer until the deadline
     */
    public Answer search(VectorQuery query) throws IOException, InterruptedException {
        return search(query, Frontier.NONE);
    }

    /**
     * Asks for the nearest rows, once at least so much of the vector stream is behind the answer: a
     * writer that knows the offsets of its own records reads them back.
     *
     * @param least watermark and offsets that are waited for
     * @throws ReadRefused if the question or the key is wrong
     * @throws JobUnavailable if there is no answer until the deadline
     */
    public Answer search(VectorQuery query, Frontier least)
            throws IOException, InterruptedException {
        return search(job -> query.asIncoming(options.k()), least);
    }

    /**
     * Asks what a line of JSON asks, in the form of a topic of queries: {@code
     * {"query_id":1,"vector":[..],"k":10,"filter":{..}}}.
     *
     * @throws ReadRefused if the line, the question or the key is wrong
     * @throws JobUnavailable if there is no answer until the deadline
     */
    public Answer searchLine(String line) throws IOException, InterruptedException {
        return search(
                job -> {
                    Incoming in = new Incoming();
                    in.kind = Incoming.Kind.QUERY_LINE;
                    in.line = line;
                    in.measured = true;
                    Reason reason = job.lines(options.k()).parse(in);
                    if (reason != null) {
                        throw refused(reason, in);
                    }
                    return in;
                },
                Frontier.NONE);
    }

    /** A question, once it is known what the job's rows carry. */
    private interface Question {
        Incoming of(JobView job) throws IOException;
    }

    private static ReadRefused refused(Reason reason, Incoming in) {
        String detail = in.problem == null || in.problem.isEmpty() ? "" : ": " + in.problem;
        return new ReadRefused(reason.metric() + detail);
    }

    private Answer search(Question question, Frontier least)
            throws IOException, InterruptedException {
        long dueNanos = System.nanoTime() + options.deadline().toNanos();
        IOException last = null;
        do {
            try {
                return ask(question, least, dueNanos);
            } catch (ReadRefused e) {
                throw e;
            } catch (IOException e) {
                last = e;
                forget();
                Thread.sleep(RETRY_MILLIS);
            }
        } while (dueNanos - System.nanoTime() > 0);
        throw new JobUnavailable(
                "The job whose checkpoints are beside "
                        + folder
                        + " gave no answer in "
                        + options.deadline().toMillis()
                        + " ms: "
                        + (last.getMessage() == null ? last : last.getMessage()),
                last);
    }

    private Answer ask(Question question, Frontier least, long dueNanos) throws IOException {
        JobView job = view();
        Incoming in = question.of(job);
        if (in.vector.length != job.dimension()) {
            throw new ReadRefused(
                    "The vector has "
                            + in.vector.length
                            + " elements; the collection has "
                            + job.dimension()
                            + ".");
        }
        Reason reason = job.asking().read(in);
        if (reason != null) {
            throw refused(reason, in);
        }
        Asked asked = job.asking().asked();
        // As the router of the job: a filter's rows may be anywhere.
        boolean everywhere = in.effort != 0 || asked.filter().length > 0;
        List<Integer> chosen = chosen(job, in.vector, everywhere);
        int waitMillis =
                (int) Math.max(0, TimeUnit.NANOSECONDS.toMillis(dueNanos - System.nanoTime()));
        ReadRequest request = new ReadRequest(waitMillis, least, in.k, in.effort, in.vector, asked);
        List<ReadReply> replies = replies(job, chosen, request.toBytes(), dueNanos);
        if (!job.fits(replies, chosen.size() == job.count())) {
            throw new IOException("rows are changing partition");
        }
        List<Neighbors> rows = replies.stream().map(ReadReply::rows).toList();
        boolean partial = replies.stream().anyMatch(ReadReply::incomplete);
        Frontier frontier =
                replies.stream().map(ReadReply::frontier).reduce(Frontier::min).orElseThrow();
        Ticket ticket = new Ticket(0, in.id, in.k, in.effort, in.intendedNanos, true);
        return job.answers().make(ticket, rows, chosen.size(), partial, frontier);
    }

    /** Which partitions to ask. */
    private static List<Integer> chosen(JobView job, float[] vector, boolean everywhere)
            throws ReadRefused {
        try {
            return job.choose(vector, everywhere);
        } catch (EngineException e) {
            if (e.kind() != EngineException.Kind.INVALID) {
                throw e;
            }
            // Such as one of zeros where the metric is cosine.
            throw new ReadRefused(e.getMessage());
        }
    }

    /** Asks all of them, and then waits for each. */
    private List<ReadReply> replies(
            JobView job, List<Integer> chosen, byte[] request, long dueNanos) throws IOException {
        for (int partition : chosen) {
            PartitionClient client = clients.get(partition);
            if (client == null) {
                client =
                        new PartitionClient(
                                job.partitions().addresses().get(partition), options, dueNanos);
                clients.put(partition, client);
            }
            client.ask(request);
        }
        List<ReadReply> replies = new ArrayList<>();
        for (int partition : chosen) {
            ReadReply reply = clients.get(partition).answer(dueNanos);
            switch (reply.status()) {
                case ANSWERED -> replies.add(reply);
                case REFUSED -> {
                    forget();
                    throw new ReadRefused(reply.message());
                }
                default -> throw new IOException(reply.message());
            }
        }
        return replies;
    }

    private JobView view() throws IOException {
        long now = System.nanoTime();
        if (view != null && now - lookedNanos > LOOK_NANOS) {
            lookedNanos = now;
            if (!view.isCurrent(folder)) {
                forget();
            }
        }
        if (view == null) {
            view = JobView.read(folder);
            lookedNanos = now;
        }
        if (view == null) {
            throw new IOException("no job has published where it answers");
        }
        return view;
    }

    /** Lets go of all that is known, since some of it is no longer true. */
    private void forget() throws IOException {
        for (PartitionClient client : clients.values()) {
            client.close();
        }
        clients.clear();
        if (view != null) {
            view.close();
            view = null;
        }
    }

    @Override
    public void close() throws IOException {
        forget();
    }
}
