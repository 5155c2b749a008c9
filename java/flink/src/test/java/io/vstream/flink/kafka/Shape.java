package io.vstream.flink.kafka;

/**
 * What {@link Traffic} writes, and the collection of the job that takes it.
 *
 * @param dimension numbers of a vector
 * @param ids ids that occur
 * @param load upserts of ids, one after the other, before anything is replaced or deleted
 * @param lifeMillis how long a row lives, or 0 for ever
 * @param memory bytes that a partition holds before rows go to segments, or 0 without a limit
 * @param cells cells of the template
 * @param sample rows that the template is trained on
 * @param queryEvery writes per query
 * @param window approximate answers over which recall is taken
 */
public record Shape(
        int dimension,
        int ids,
        int load,
        long lifeMillis,
        long memory,
        int cells,
        int sample,
        int queryEvery,
        int window) {

    /** Share of the nearest rows that approximate answers are steered to. */
    public static final double TARGET = 0.95;

    /** How far below the target a window may be. */
    static final double SLACK = 0.02;

    /** Thousands of rows in memory. */
    public static final Shape SMALL = new Shape(64, 6_000, 4_000, 0, 0, 32, 2_000, 40, 100);

    /** More than 100,000 rows that live for three minutes and are mostly in segments. */
    public static final Shape LARGE =
            new Shape(64, 160_000, 120_000, 180_000, 4 << 20, 128, 10_000, 200, 150);
}
