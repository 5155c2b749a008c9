package io.vstream.flink.search;

import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;

/**
 * How partitions answer questions from outside the job: the section {@code reads} of a job.
 *
 * @param host name or number of the machine's address to listen at. Each partition takes a free
 *     port
 * @param keyFile file on each machine whose first line is the key that readers must know; null for
 *     none
 * @param keystore PKCS#12 file on each machine with the certificate for TLS; null for none
 * @param passwordFile file on each machine whose first line is the password of the keystore; null
 *     for none
 * @param connections that a partition takes at most
 * @param folder beside the checkpoints, where the addresses are published
 */
public record ReadSettings(
        String host,
        String keyFile,
        String keystore,
        String passwordFile,
        int connections,
        String folder)
        implements Serializable {

    private static final long serialVersionUID = 1L;

    /** Connections of a partition, unless set. */
    public static final int CONNECTIONS = 64;

    /** Name of the folder. */
    public static final String FOLDER = "vstream-reads";

    /** Refuses an address that other machines reach without a key and TLS, and half of TLS. */
    public ReadSettings {
        if (connections < 1) {
            throw new IllegalArgumentException(
                    "reads.connections is " + connections + ": set it to 1 or more.");
        }
        if (!isLoopback(host) && (keyFile == null || keystore == null || passwordFile == null)) {
            throw new IllegalArgumentException(
                    "reads.host is "
                            + host
                            + ", which other machines reach: set reads.key-file, reads.keystore"
                            + " and reads.password-file too, or reads.host to 127.0.0.1.");
        }
        if ((keystore == null) != (passwordFile == null)) {
            throw new IllegalArgumentException(
                    "reads.keystore and reads.password-file go together: set both, or neither.");
        }
    }

    /** These settings with another folder. */
    public ReadSettings withFolder(String other) {
        return new ReadSettings(host, keyFile, keystore, passwordFile, connections, other);
    }

    private static boolean isLoopback(String host) {
        try {
            return InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException e) {
            // Known on the machines of the job, maybe.
            return false;
        }
    }
}
