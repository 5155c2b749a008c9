package io.vstream.flink;

/** How far apart two vectors are; smaller is closer. */
public enum Metric {
    /** Squared Euclidean distance. */
    L2("l2"),
    /** One minus the cosine of the angle; vectors must not be zero. */
    COSINE("cosine"),
    /** The negative inner product. */
    INNER_PRODUCT("inner_product");

    private final String key;

    Metric(String key) {
        this.key = key;
    }

    /** Name in settings. */
    String key() {
        return key;
    }
}
