package io.vstream.flink.published;

import java.io.Serializable;

/**
 * Where a partition answers questions from outside the job.
 *
 * @param host name or number of the machine
 * @param port of TCP
 */
public record ReadAddress(String host, int port) implements Serializable {
    private static final long serialVersionUID = 1L;
}
