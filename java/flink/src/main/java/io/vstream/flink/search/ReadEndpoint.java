package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.ingest.Ticket;
import io.vstream.flink.published.ReadAddress;
import io.vstream.flink.route.QueryCopy;
import io.vstream.nativecore.BufferLayout;
import io.vstream.nativecore.EngineException;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers questions from outside the job, on threads of its own: neither the stream nor a
 * checkpoint waits for a reader.
 *
 * <ul>
 *   <li><b>A connection is a thread</b>, and there are at most so many; each asks one question at a
 *       time. Searches beyond {@code threads} wait for their turn, exact ones have one turn.
 *   <li><b>The key comes before anything is read</b>, and is compared in constant time.
 *   <li><b>An answer says how much of the stream is behind it.</b> Rows of the batch that is being
 *       gathered are not in it: it is at most a tick old.
 *   <li><b>It says where hand-overs are</b>, and no step begins in the middle of a search. So the
 *       reader knows when it must ask again: see {@link io.vstream.flink.ask.JobReader}.
 * </ul>
 */
final class ReadEndpoint implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(ReadEndpoint.class);

    /** A reader that says nothing for so long is let go. */
    private static final int IDLE_MILLIS = 60_000;

    /** A reader must greet in this time. */
    private static final int GREETING_MILLIS = 5_000;

    private static final long END_MILLIS = 10_000;

    /** Searches of one question: a step of a hand-over in the middle of one makes another. */
    private static final int SEARCHES_MAX = 3;

    private final SearchTask.Partition partition;
    private final int dimension;
    private final int connectionsMax;
    private final byte[] key;
    private final ServerSocket socket;
    private final Thread acceptor;
    private final Semaphore usual;
    private final Semaphore exact = new Semaphore(1, true);
    private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    /** What the task has said last; guarded by this. */
    private Frontier frontier = Frontier.NONE;

    private Place place = new Place(0, 0);

    /**
     * Listens.
     *
     * @param threads that search at once
     * @throws IOException if the address, the key or the certificate cannot be used
     */
    ReadEndpoint(ReadSettings settings, SearchTask.Partition partition, int dimension, int threads)
            throws IOException {
        this.partition = partition;
        this.dimension = dimension;
        this.connectionsMax = settings.connections();
        this.usual = new Semaphore(Math.max(1, threads), true);
        this.key =
                settings.keyFile() == null
                        ? new byte[0]
                        : ReadSockets.secret(Path.of(settings.keyFile()))
                                .getBytes(StandardCharsets.UTF_8);
        this.socket = ReadSockets.listen(settings);
        acceptor = new Thread(this::accept, "vstream-read-" + partition.number());
        acceptor.setDaemon(true);
        acceptor.start();
    }

    /**
     * Where readers find it.
     *
     * @param machine name of this machine for others, where it listens at all addresses; a cluster
     *     in one process has none
     * @throws UnknownHostException if this machine has no name either
     */
    ReadAddress address(String machine) throws UnknownHostException {
        InetAddress host = socket.getInetAddress();
        String name = host.getHostAddress();
        if (host.isAnyLocalAddress()) {
            name = machine.isEmpty() ? InetAddress.getLocalHost().getHostName() : machine;
        }
        return new ReadAddress(name, socket.getLocalPort());
    }

    /** All rows up to here are in the engine. */
    synchronized void applied(Frontier now) {
        frontier = now;
        notifyAll();
    }

    /** The partition has heard of a step of a hand-over, and has done nothing of it yet. */
    synchronized void reached(long run, long position) {
        place = new Place(run, position);
    }

    /** Where the hand-overs are. */
    private record Place(long run, long position) {}

    private synchronized Place place() {
        return place;
    }

    private void accept() {
        while (!closed) {
            try {
                Socket reader = socket.accept();
                if (connections.size() >= connectionsMax) {
                    reader.close();
                    continue;
                }
                Connection connection = new Connection(reader);
                connections.add(connection);
                connection.start();
            } catch (IOException e) {
                if (!closed) {
                    LOG.warn("A reader could not be accepted.", e);
                }
            }
        }
    }

    /** Waits for the frontier; null if it does not come in time. */
    private synchronized Frontier await(Frontier least, long dueNanos) throws InterruptedException {
        while (!reaches(frontier, least)) {
            long left = TimeUnit.NANOSECONDS.toMillis(dueNanos - System.nanoTime());
            if (left <= 0 || closed) {
                return null;
            }
            wait(left);
        }
        return frontier;
    }

    /** True if all that {@code least} names is behind {@code now}. */
    static boolean reaches(Frontier now, Frontier least) {
        if (least.watermark() != Frontier.NO_TIME && now.watermark() < least.watermark()) {
            return false;
        }
        for (int i = 0; i < least.offsets().length; i++) {
            long has = i < now.offsets().length ? now.offsets()[i] : Frontier.NO_OFFSET;
            if (has < least.offsets()[i]) {
                return false;
            }
        }
        return true;
    }

    private ReadReply answer(ReadRequest request) throws InterruptedException {
        long dueNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(request.waitMillis());
        Frontier reached = await(request.least(), dueNanos);
        if (reached == null) {
            return ReadReply.without(
                    ReadReply.Status.BUSY,
                    "The partition has not applied that much of the stream yet.");
        }
        boolean readsAll = request.effort() == BufferLayout.EFFORT_EXACT;
        Semaphore turns = readsAll ? exact : usual;
        if (!turns.tryAcquire(dueNanos - System.nanoTime(), TimeUnit.NANOSECONDS)) {
            return ReadReply.without(
                    ReadReply.Status.BUSY, "Other searches of the partition took too long.");
        }
        try {
            return search(request, reached);
        } catch (EngineException e) {
            boolean mine = e.kind() == EngineException.Kind.INVALID;
            return ReadReply.without(
                    mine ? ReadReply.Status.REFUSED : ReadReply.Status.FAILED, e.getMessage());
        } finally {
            turns.release();
        }
    }

    private ReadReply search(ReadRequest request, Frontier reached) {
        Ticket ticket = new Ticket(0, 0, request.k(), request.effort(), 0, false);
        QueryCopy copy =
                new QueryCopy(
                        ticket,
                        0,
                        true,
                        1,
                        -1,
                        request.vector(),
                        request.asked(),
                        null,
                        QueryCopy.WHOLE);
        for (int attempt = 0; attempt < SEARCHES_MAX; attempt++) {
            Place before = place();
            PartialAnswer found;
            try (SearchTask task = new SearchTask(partition, copy, reached, null)) {
                found = task.run().answer();
            }
            if (before.equals(place())) {
                return new ReadReply(
                        ReadReply.Status.ANSWERED,
                        "",
                        before.run,
                        before.position,
                        found.rows(),
                        reached,
                        found.incomplete());
            }
        }
        return ReadReply.without(
                ReadReply.Status.BUSY, "Rows come and go faster than the search ends.");
    }

    /** Lets all readers go, and waits for searches that run. */
    @Override
    public void close() throws InterruptedException {
        closed = true;
        synchronized (this) {
            notifyAll();
        }
        quietly(socket);
        connections.forEach(connection -> quietly(connection.reader));
        acceptor.join(END_MILLIS);
        for (Connection connection : connections) {
            connection.join(END_MILLIS);
        }
    }

    private static void quietly(AutoCloseable closing) {
        try {
            closing.close();
        } catch (Exception e) {
            LOG.debug("A socket did not close.", e);
        }
    }

    /** One reader. */
    private final class Connection extends Thread {

        private final Socket reader;

        private Connection(Socket reader) {
            super("vstream-reader-" + partition.number());
            this.reader = reader;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (reader) {
                reader.setTcpNoDelay(true);
                reader.setSoTimeout(GREETING_MILLIS);
                DataInputStream in =
                        new DataInputStream(new BufferedInputStream(reader.getInputStream()));
                DataOutputStream out =
                        new DataOutputStream(new BufferedOutputStream(reader.getOutputStream()));
                boolean known = MessageDigest.isEqual(ReadFrames.greeting(in), key);
                ReadFrames.welcome(out, known);
                if (!known) {
                    LOG.warn("A reader with a wrong key was refused.");
                    return;
                }
                reader.setSoTimeout(IDLE_MILLIS);
                talk(in, out);
            } catch (IOException e) {
                LOG.debug("A reader is gone.", e);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } finally {
                connections.remove(this);
            }
        }

        private void talk(DataInputStream in, DataOutputStream out)
                throws IOException, InterruptedException {
            byte[] frame = ReadFrames.receive(in, true);
            while (frame != null && !closed) {
                ReadReply reply;
                try {
                    reply = answer(ReadRequest.of(frame, dimension));
                } catch (EOFException e) {
                    reply = ReadReply.without(ReadReply.Status.REFUSED, "The question is cut.");
                } catch (IOException e) {
                    reply = ReadReply.without(ReadReply.Status.REFUSED, e.getMessage());
                } catch (RuntimeException e) {
                    LOG.warn("A question failed.", e);
                    reply = ReadReply.without(ReadReply.Status.FAILED, e.toString());
                }
                ReadFrames.send(out, reply.toBytes());
                frame = ReadFrames.receive(in, true);
            }
        }
    }
}
