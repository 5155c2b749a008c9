package io.vstream.flink.search;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.stream.Stream;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/** Sockets of readers and of partitions, with TLS or without. */
public final class ReadSockets {

    private static final String STORE = "PKCS12";
    private static final String[] PROTOCOLS = {"TLSv1.3"};
    private static final int BACKLOG = 64;

    private ReadSockets() {}

    /** A socket of a partition at a free port. */
    static ServerSocket listen(ReadSettings settings) throws IOException {
        InetAddress host = InetAddress.getByName(settings.host());
        ServerSocket socket =
                settings.keystore() == null
                        ? new ServerSocket()
                        : own(settings).getServerSocketFactory().createServerSocket();
        try {
            socket.bind(new InetSocketAddress(host, 0), BACKLOG);
            return socket;
        } catch (IOException e) {
            socket.close();
            throw e;
        }
    }

    /**
     * Connects to a partition.
     *
     * @param certificates PEM file with the certificate that the partition must have, or of who
     *     signed it; null for no TLS
     * @param timeoutMillis for the connection, and then for each read
     */
    public static Socket connect(String host, int port, Path certificates, int timeoutMillis)
            throws IOException {
        Socket socket = new Socket();
        try {
            socket.connect(new InetSocketAddress(host, port), timeoutMillis);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(timeoutMillis);
            if (certificates == null) {
                return socket;
            }
            SSLSocket secured =
                    (SSLSocket)
                            trusting(certificates)
                                    .getSocketFactory()
                                    .createSocket(socket, host, port, true);
            SSLParameters parameters = secured.getSSLParameters();
            parameters.setProtocols(PROTOCOLS);
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            secured.setSSLParameters(parameters);
            secured.startHandshake();
            return secured;
        } catch (IOException e) {
            socket.close();
            throw e;
        }
    }

    /** The first line of a file that holds a secret. */
    public static String secret(Path file) throws IOException {
        try (Stream<String> lines = Files.lines(file, StandardCharsets.UTF_8)) {
            String line = lines.findFirst().orElse("").strip();
            if (line.isEmpty()) {
                throw new IOException(file + " is empty; its first line must be the secret.");
            }
            return line;
        } catch (NoSuchFileException e) {
            throw new IOException("The file of a secret is not there: " + file + ".", e);
        }
    }

    private static SSLContext own(ReadSettings settings) throws IOException {
        char[] password = secret(Path.of(settings.passwordFile())).toCharArray();
        try {
            KeyManagerFactory keys =
                    KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            keys.init(store(Path.of(settings.keystore()), password), password);
            SSLContext context = SSLContext.getInstance(PROTOCOLS[0]);
            context.init(keys.getKeyManagers(), null, null);
            return context;
        } catch (GeneralSecurityException e) {
            throw new IOException(settings.keystore() + " cannot be used for TLS.", e);
        }
    }

    private static SSLContext trusting(Path certificates) throws IOException {
        try (InputStream in = Files.newInputStream(certificates)) {
            KeyStore store = KeyStore.getInstance(STORE);
            store.load(null, null);
            int count = 0;
            for (Certificate one :
                    CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                store.setCertificateEntry("trusted-" + count++, one);
            }
            TrustManagerFactory trust =
                    TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance(PROTOCOLS[0]);
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (GeneralSecurityException e) {
            throw new IOException(certificates + " cannot be used for TLS.", e);
        }
    }

    private static KeyStore store(Path file, char[] password)
            throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(STORE);
        try (InputStream in = Files.newInputStream(file)) {
            store.load(in, password);
        }
        return store;
    }
}
