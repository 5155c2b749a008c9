package io.vstream.nativecore;

/** What the JVM cannot say of a thread. */
public final class NativeThread {

    private NativeThread() {}

    /**
     * Lets other threads of the machine compute before the calling one, from now on, if there are
     * more than cores. A JVM passes priorities to Linux only where it was started to.
     *
     * @throws EngineException as {@link NativeLibrary#load}
     */
    public static void yieldToOthers() {
        NativeLibrary.load();
        Bridge.yieldToOthers();
    }
}
