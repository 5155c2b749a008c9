package io.vstream.flink.job;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A way to a server that can be cut. */
final class TcpProxy implements AutoCloseable {

    private final InetSocketAddress server;
    private final ServerSocket socket = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private boolean cut;

    /**
     * @param server as http://host:port
     */
    TcpProxy(String server) throws IOException {
        URI address = URI.create(server);
        this.server = new InetSocketAddress(address.getHost(), address.getPort());
        start("accept", this::accept);
    }

    /** Where it listens, as http://host:port. */
    String address() {
        return "http://127.0.0.1:" + socket.getLocalPort();
    }

    /** Cuts all connections and refuses further ones, or lets them through. */
    synchronized void cut(boolean now) {
        cut = now;
        if (now) {
            open.forEach(TcpProxy::close);
        }
    }

    private void accept() throws IOException {
        while (true) {
            Socket client = socket.accept();
            Socket upstream = new Socket();
            if (!keep(client, upstream)) {
                continue;
            }
            try {
                upstream.connect(server);
            } catch (IOException e) {
                // The way was cut meanwhile, or the server is gone.
                close(client);
                open.remove(client);
                open.remove(upstream);
                continue;
            }
            start("there", () -> copy(client, upstream));
            start("back", () -> copy(upstream, client));
        }
    }

    /** Keeps two ends to be cut, unless they are to be cut now. */
    private synchronized boolean keep(Socket client, Socket upstream) {
        if (cut) {
            close(client);
            close(upstream);
            return false;
        }
        open.add(client);
        open.add(upstream);
        return true;
    }

    private void copy(Socket from, Socket to) {
        try (from;
                to) {
            InputStream in = from.getInputStream();
            in.transferTo(to.getOutputStream());
        } catch (IOException e) {
            // It was cut, or one side has closed it.
        } finally {
            open.remove(from);
            open.remove(to);
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(String name, Work work) {
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                work.run();
                            } catch (IOException e) {
                                // The proxy was closed.
                            }
                        },
                        "proxy-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // It is no more open than it was.
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
        cut(true);
    }
}
