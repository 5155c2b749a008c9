package io.vstream.nativecore;

/** Failures on demand, implemented by {@code fault.rs}. */
final class NativeFaults {

    private NativeFaults() {}

    /** Panics inside a call on the engine; with 0, inside a call on nothing. */
    static native void panic(long engine);

    /** Fails with the kind of this code. */
    static native void fail(int code, String message);
}
