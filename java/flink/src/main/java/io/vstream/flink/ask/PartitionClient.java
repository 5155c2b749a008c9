package io.vstream.flink.ask;

import io.vstream.flink.published.ReadAddress;
import io.vstream.flink.search.ReadFrames;
import io.vstream.flink.search.ReadReply;
import io.vstream.flink.search.ReadSockets;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.Socket;
import java.util.concurrent.TimeUnit;

/** The connection to one partition. After a failure it is closed and not used again. */
final class PartitionClient implements AutoCloseable {

    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;

    /** Connects and greets. */
    PartitionClient(ReadAddress address, ReadOptions options, long dueNanos) throws IOException {
        socket =
                ReadSockets.connect(
                        address.host(), address.port(), options.certificates(), left(dueNanos));
        in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
        out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
        try {
            ReadFrames.greet(out, in, options.key());
        } catch (IOException e) {
            close();
            throw e;
        }
    }

    /** Sends a question. */
    void ask(byte[] request) throws IOException {
        ReadFrames.send(out, request);
    }

    /** Waits for its answer. */
    ReadReply answer(long dueNanos) throws IOException {
        socket.setSoTimeout(left(dueNanos));
        byte[] frame = ReadFrames.receive(in, false);
        if (frame == null) {
            throw new EOFException("The partition has closed the connection.");
        }
        return ReadReply.of(frame);
    }

    private static int left(long dueNanos) {
        return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(dueNanos - System.nanoTime()));
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
