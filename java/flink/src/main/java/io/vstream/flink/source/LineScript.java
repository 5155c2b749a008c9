package io.vstream.flink.source;

import io.vstream.flink.ingest.Incoming;
import io.vstream.flink.metrics.Names;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.Path;

/**
 * The lines of one file in order; the position is the byte where a line begins. One reader, because
 * the order of the lines is part of their meaning: an upsert and a later delete of one id.
 */
public final class LineScript implements Script {

    private static final long serialVersionUID = 1L;

    /** Longer lines, beside their payload, are refused: 4,096 numbers need 80 KiB. */
    static final int LINE_BYTES_MAX = 1 << 18;

    private static final int READ_BYTES = 1 << 16;

    private final String path;
    private final boolean queries;
    private final int bytesMax;

    /**
     * @param path of a file with one JSON object per line, on any file system that Flink knows
     * @param queries true for queries, which wait at {@link GeneratorScript#GATE_PRELOAD} until the
     *     vectors are in the index, false for vectors
     * @param payloadMax most bytes of a payload, which may take twice as many in JSON
     */
    public LineScript(String path, boolean queries, int payloadMax) {
        this.path = path;
        this.queries = queries;
        bytesMax = LINE_BYTES_MAX + 2 * payloadMax;
    }

    @Override
    public Player play(ScriptSplit from, Gate gate) throws IOException {
        Path file = new Path(path);
        FSDataInputStream in = file.getFileSystem().open(file);
        in.seek(from.position());
        return new LinePlayer(in, from.position(), gate);
    }

    private final class LinePlayer implements Player {

        private final InputStream in;
        private final Gate gate;
        private final byte[] read = new byte[READ_BYTES];
        private int readAt;
        private int readEnd;
        private byte[] line = new byte[1024];
        private int length;
        private boolean tooLong;
        private long position;
        private long measuredSince;
        private boolean waits;

        private LinePlayer(InputStream in, long position, Gate gate) {
            this.in = in;
            this.position = position;
            this.gate = gate;
        }

        @Override
        public Outcome next(long now, Incoming into) throws IOException {
            waits = queries && !gate.passes(GeneratorScript.GATE_PRELOAD);
            if (waits) {
                return Outcome.WAIT;
            }
            if (measuredSince == 0) {
                measuredSince = now;
            }
            do {
                if (!readLine()) {
                    return Outcome.END;
                }
            } while (blank());
            Incoming.Kind whole = queries ? Incoming.Kind.QUERY_LINE : Incoming.Kind.VECTOR_LINE;
            into.kind = tooLong ? Incoming.Kind.LONG_LINE : whole;
            into.line = new String(line, 0, length, StandardCharsets.UTF_8);
            into.intendedNanos = now;
            into.measured = true;
            return Outcome.RECORD;
        }

        /** Reads up to the next line feed; false at the end of the file. */
        private boolean readLine() throws IOException {
            length = 0;
            tooLong = false;
            long began = position;
            while (readAt < readEnd || fill()) {
                byte next = read[readAt++];
                position++;
                if (next == '\n') {
                    return true;
                }
                add(next);
            }
            return position > began;
        }

        private boolean fill() throws IOException {
            readAt = 0;
            readEnd = Math.max(0, in.read(read));
            return readEnd > 0;
        }

        private void add(byte value) {
            if (length == bytesMax) {
                tooLong = true;
                return;
            }
            if (length == line.length) {
                line = Arrays.copyOf(line, length * 2);
            }
            line[length++] = value;
        }

        private boolean blank() {
            for (int i = 0; i < length; i++) {
                if (line[i] > ' ' || line[i] < 0) {
                    return false;
                }
            }
            return true;
        }

        @Override
        public ScriptSplit position() {
            return new ScriptSplit(position, 0);
        }

        @Override
        public int phase() {
            return waits ? Names.PHASE_SETTLING : Names.PHASE_STREAM;
        }

        @Override
        public int waiting() {
            return waits ? GeneratorScript.GATE_PRELOAD : -1;
        }

        @Override
        public long measuredSince() {
            return measuredSince;
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }
}
