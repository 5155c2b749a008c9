package io.vstream.flink.kafka;

import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;

/** Addresses of this machine, to which secrets may go unencrypted. */
public final class Loopback {

    private Loopback() {}

    /** True if the host of an address is this machine; asks for the address of its name. */
    public static boolean isHostOf(URI address) {
        String host = address.getHost();
        try {
            // Java takes no name for the name of this machine.
            return host != null && InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException e) {
            return false;
        }
    }
}
