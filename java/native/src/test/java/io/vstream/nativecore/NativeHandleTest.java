package io.vstream.nativecore;

import static io.vstream.nativecore.Fixture.assertFails;
import static io.vstream.nativecore.Fixture.vector;
import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.nativecore.EngineException.Kind;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a handle promises: closed once, never a crash, a defect stays with its engine. */
class NativeHandleTest {

    @Test
    void closingTwiceClosesOnce() {
        AtomicInteger destroyed = new AtomicInteger();
        NativeHandle handle = new NativeHandle("thing", 7, number -> destroyed.incrementAndGet());
        assertThat(handle.number()).isEqualTo(7);
        handle.close();
        handle.close();
        assertThat(destroyed).hasValue(1);
        assertFails(Kind.CLOSED, "This thing is closed", handle::number);
    }

    @Test
    @Timeout(60)
    void anOwnerThatIsDroppedWithoutCloseIsReportedAndNotFreed() throws Exception {
        AtomicInteger destroyed = new AtomicInteger();
        BlockingQueue<LogRecord> reports = new LinkedBlockingQueue<>();
        Logger log = Logger.getLogger(NativeHandle.class.getName());
        Handler collector = new LogCollector(reports);
        log.addHandler(collector);
        log.setUseParentHandlers(false);
        try {
            new NativeHandle("closed thing", 8, number -> {}).close();
            dropOne(destroyed);
            LogRecord report = null;
            while (report == null) {
                System.gc();
                report = reports.poll(50, TimeUnit.MILLISECONDS);
            }
            assertThat(report.getMessage()).contains("forgotten thing").contains("close()");
            assertThat(report.getThrown().getStackTrace())
                    .anyMatch(frame -> frame.getMethodName().equals("dropOne"));
            assertThat(reports).isEmpty();
            assertThat(destroyed).hasValue(0);
        } finally {
            log.removeHandler(collector);
            log.setUseParentHandlers(true);
        }
    }

    @Test
    void everyCallAfterCloseIsRefused() {
        NativeEngine engine = NativeEngine.create(Fixture.L2);
        engine.close();
        engine.close();
        VectorBatch batch = new VectorBatch(Fixture.DIMENSION, 1);
        assertFails(Kind.CLOSED, "engine", () -> engine.write(batch.buffer(), 0));
        assertFails(Kind.CLOSED, "engine", () -> Fixture.search(engine, vector(1), 1));
        assertFails(Kind.CLOSED, "engine", () -> engine.snapshot(Path.of("nowhere")));
        assertFails(Kind.CLOSED, "engine", engine::statsJson);

        NativeRouter router = NativeRouter.unplaced(Fixture.L2);
        router.close();
        router.close();
        assertFails(Kind.CLOSED, "router", router::epoch);
        assertFails(Kind.CLOSED, "router", router::placed);
        assertFails(Kind.CLOSED, "router", router::toBytes);
    }

    @Test
    void theNativeSideRefusesStaleAndMadeUpNumbersByItself() {
        NativeLibrary.load();
        long engine = Bridge.engineCreate(Fixture.L2);
        long router = Bridge.routerUnplaced(Fixture.L2);
        for (long wrong : new long[] {0, 1, -1, Long.MAX_VALUE, Long.MIN_VALUE, engine + 99}) {
            assertFails(Kind.INVALID, "no engine", () -> Bridge.engineStats(wrong));
            assertFails(Kind.INVALID, "no router", () -> Bridge.routerEpoch(wrong));
            assertFails(Kind.INVALID, "no engine", () -> Bridge.engineClose(wrong));
        }
        assertFails(Kind.INVALID, "no engine", () -> Bridge.engineStats(router));
        assertFails(Kind.INVALID, "no router", () -> Bridge.routerClose(engine));

        Bridge.engineClose(engine);
        assertFails(Kind.CLOSED, "engine", () -> Bridge.engineStats(engine));
        assertFails(Kind.CLOSED, "engine", () -> Bridge.engineClose(engine));
        Bridge.engineClose(Bridge.engineCreate(Fixture.L2));
        assertFails(Kind.CLOSED, "engine", () -> Bridge.engineStats(engine));
        Bridge.routerClose(router);
    }

    @Test
    void numbersAreNeverHandedOutTwice() {
        NativeLibrary.load();
        Set<Long> seen = new HashSet<>();
        for (int i = 0; i < 1000; i++) {
            long engine = Bridge.engineCreate(Fixture.L2);
            assertThat(seen.add(engine)).isTrue();
            Bridge.engineClose(engine);
        }
    }

    @Test
    void aNullTextIsRefusedByTheNativeSideToo() {
        NativeLibrary.load();
        assertFails(Kind.INVALID, "settings is null", () -> Bridge.engineCreate(null));
        assertFails(
                Kind.INVALID,
                "records is null",
                () -> withEngine(n -> Bridge.engineWrite(n, null, 1)));
    }

    @Test
    void aPanicPoisonsItsEngineAloneAndTheJvmLivesOn() {
        NativeLibrary.load();
        withEngine(
                poisoned ->
                        withEngine(
                                healthy -> {
                                    assertFails(
                                            Kind.INTERNAL,
                                            "asked for by a test",
                                            () -> NativeFaults.panic(poisoned));
                                    assertFails(
                                            Kind.INTERNAL,
                                            "earlier call",
                                            () -> Bridge.engineStats(poisoned));
                                    assertThat(Bridge.engineStats(healthy)).contains("live-rows");
                                }));
        assertFails(Kind.INTERNAL, "asked for by a test", () -> NativeFaults.panic(0));
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 10, 1);
            assertThat(Fixture.search(engine, vector(3), 1)).containsExactly("3/1");
        }
    }

    @Test
    @Timeout(120)
    void manyThreadsSearchWhileOneWrites() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        AtomicBoolean writing = new AtomicBoolean(true);
        try (NativeEngine engine = NativeEngine.create(Fixture.L2)) {
            Fixture.upsert(engine, 0, 100, 1);
            List<Future<Integer>> readers = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                long settled = i;
                readers.add(threads.submit(() -> searchUntilDone(engine, settled, writing)));
            }
            for (long round = 0; round < 40; round++) {
                Fixture.upsert(engine, 1000 + round * 100, 1100 + round * 100, 1);
                if (round > 0) {
                    Fixture.delete(engine, 900 + round * 100, 1000 + round * 100, 2);
                }
            }
            writing.set(false);
            for (Future<Integer> reader : readers) {
                assertThat(reader.get()).isPositive();
            }
            assertThat(engine.statsJson()).contains("\"live-rows\":200");
        } finally {
            writing.set(false);
            threads.shutdownNow();
        }
    }

    @Test
    @Timeout(120)
    void closingWhileThreadsSearchIsClean() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 20; round++) {
                NativeEngine engine = NativeEngine.create(Fixture.L2);
                Fixture.upsert(engine, 0, 200, 1);
                List<Future<Kind>> readers = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    readers.add(threads.submit(() -> searchUntilRefused(engine)));
                }
                Thread.sleep(5);
                engine.close();
                for (Future<Kind> reader : readers) {
                    assertThat(reader.get()).isEqualTo(Kind.CLOSED);
                }
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private static void dropOne(AtomicInteger destroyed) {
        new NativeHandle("forgotten thing", 9, number -> destroyed.incrementAndGet());
    }

    private static int searchUntilDone(NativeEngine engine, long id, AtomicBoolean writing) {
        int searches = 0;
        while (searches == 0 || writing.get()) {
            assertThat(Fixture.search(engine, vector(id), 3)).hasSize(3).contains(id + "/1");
            searches++;
        }
        return searches;
    }

    private static Kind searchUntilRefused(NativeEngine engine) {
        try {
            while (true) {
                assertThat(Fixture.search(engine, vector(5), 1)).containsExactly("5/1");
            }
        } catch (EngineException e) {
            return e.kind();
        }
    }

    private static void withEngine(LongConsumer work) {
        long engine = Bridge.engineCreate(Fixture.L2);
        try {
            work.accept(engine);
        } finally {
            Bridge.engineClose(engine);
        }
    }

    /** Keeps what is logged. */
    private static final class LogCollector extends Handler {
        private final BlockingQueue<LogRecord> records;

        LogCollector(BlockingQueue<LogRecord> records) {
            this.records = records;
        }

        @Override
        public void publish(LogRecord entry) {
            records.add(entry);
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
