package io.vstream.flink.ask;

import java.io.IOException;

/** The job gave no answer in time; it may give one to a later question. */
public final class JobUnavailable extends IOException {
    private static final long serialVersionUID = 1L;

    JobUnavailable(String message, Throwable cause) {
        super(message, cause);
    }
}
