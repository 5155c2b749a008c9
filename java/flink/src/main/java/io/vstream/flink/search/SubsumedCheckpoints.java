package io.vstream.flink.search;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.function.LongConsumer;
import org.apache.flink.api.common.state.InternalCheckpointListener;
import org.apache.flink.runtime.state.KeyedStateBackend;

/**
 * Hears which checkpoints the JobManager has dropped. Flink has that for keyed state backends which
 * listen, and for nothing else: so this is one in name, and refuses everything else.
 *
 * <p>If a later Flink no longer asks, nobody is told, and what checkpoints name in a remote level
 * is never deleted: too much is kept, nothing is lost.
 */
final class SubsumedCheckpoints {

    private SubsumedCheckpoints() {}

    /** A backend that passes on the id of each checkpoint that is dropped with all before it. */
    @SuppressWarnings("unchecked")
    static <K> KeyedStateBackend<K> told(LongConsumer subsumed) {
        InvocationHandler handler =
                (proxy, method, arguments) ->
                        switch (method.getName()) {
                            case "notifyCheckpointSubsumed" -> {
                                subsumed.accept((long) arguments[0]);
                                yield null;
                            }
                            case "toString" -> "listener of subsumed checkpoints";
                            case "hashCode" -> System.identityHashCode(proxy);
                            case "equals" -> proxy == arguments[0];
                            default ->
                                    throw new UnsupportedOperationException(
                                            "The rows of search are in an engine, not in keyed"
                                                    + " state.");
                        };
        return (KeyedStateBackend<K>)
                Proxy.newProxyInstance(
                        SubsumedCheckpoints.class.getClassLoader(),
                        new Class<?>[] {KeyedStateBackend.class, InternalCheckpointListener.class},
                        handler);
    }
}
