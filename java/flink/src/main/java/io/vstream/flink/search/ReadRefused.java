package io.vstream.flink.search;

import java.io.IOException;

/** A partition does not answer this reader or this question, and would not another time. */
public final class ReadRefused extends IOException {
    private static final long serialVersionUID = 1L;

    /** Says why. */
    public ReadRefused(String message) {
        super(message);
    }
}
