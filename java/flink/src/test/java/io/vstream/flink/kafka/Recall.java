package io.vstream.flink.kafka;

/** Rows of approximate answers, in windows of so many answers, in the order of their arrival. */
public final class Recall {

    private final int window;
    private long answers;
    private long hits;
    private long wanted;
    private long windowHits;
    private long windowWanted;
    private int windows;
    private double least = 1;

    Recall(int window) {
        this.window = window;
    }

    /**
     * What was counted.
     *
     * @param answers approximate answers
     * @param share of the nearest rows that they held
     * @param windows that were full
     * @param least share in any of them; if none was full, in all answers
     */
    public record Summary(long answers, double share, int windows, double least) {}

    /** Adds an answer with {@code found} of {@code rows} rows that it should have held. */
    void add(int found, int rows) {
        answers++;
        hits += found;
        wanted += rows;
        windowHits += found;
        windowWanted += rows;
        if (answers % window == 0) {
            windows++;
            least = Math.min(least, share(windowHits, windowWanted));
            windowHits = 0;
            windowWanted = 0;
        }
    }

    Summary summary() {
        double all = share(hits, wanted);
        return new Summary(answers, all, windows, windows == 0 ? all : least);
    }

    private static double share(long part, long whole) {
        return whole == 0 ? 1 : (double) part / whole;
    }
}
