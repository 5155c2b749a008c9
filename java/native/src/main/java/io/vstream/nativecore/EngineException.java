package io.vstream.nativecore;

/**
 * What the native side refused or failed to do. The message is a full sentence that says what to
 * change; the kind says who can change it.
 */
public final class EngineException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /** What went wrong, by remedy. The order is the wire code, shared with {@code errors.rs}. */
    public enum Kind {
        /** The caller gave something that can never work: change the input or the settings. */
        INVALID,
        /** Not possible now: a retry, or more memory or disk, may help. */
        UNAVAILABLE,
        /** Stored bytes are not what was written: restore from another copy. */
        CORRUPT,
        /** A valid request that this build does not answer. */
        UNSUPPORTED,
        /** The file system or the operating system said no. */
        IO,
        /** A defect in VStream. The handle that met it refuses all further work. */
        INTERNAL,
        /** The handle was closed. */
        CLOSED;

        private static final Kind[] BY_CODE = values();

        /** The code that crosses the language border. */
        int code() {
            return ordinal();
        }

        /** The kind of a wire code; an unknown code is a defect, so it reads as INTERNAL. */
        static Kind ofCode(int code) {
            return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : INTERNAL;
        }
    }

    private final Kind kind;

    /**
     * @param kind what went wrong, by remedy
     * @param message a full sentence that says what to change
     */
    public EngineException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    /**
     * @param kind what went wrong, by remedy
     * @param message a full sentence that says what to change
     * @param cause what the platform reported
     */
    public EngineException(Kind kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /** Called by the native side alone. */
    EngineException(int code, String message) {
        this(Kind.ofCode(code), message);
    }

    /** What went wrong, by remedy. */
    public Kind kind() {
        return kind;
    }
}
