package io.vstream.flink.search;

import io.vstream.flink.ingest.Frontier;
import io.vstream.flink.metrics.Level;
import io.vstream.flink.metrics.Meters;
import io.vstream.flink.metrics.Names;
import io.vstream.flink.metrics.Ratio;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Gauges of a partition's engine. */
final class PartitionGauges {

    private static final long UNKNOWN = -1;

    private final Level rows;
    private final Level deleted;
    private final Level memory;
    private final Level memoryTier;
    private final Level diskTier;
    private final Level memoryResidence;
    private final Level diskResidence;
    private final Level remoteBytes;
    private final Level freshnessLag;
    private final Ratio recall;
    private final Ratio margin;

    PartitionGauges(Meters meters) {
        rows = meters.level(Names.ROWS);
        deleted = meters.level(Names.DELETED);
        memory = meters.level(Names.NATIVE_MEMORY);
        memoryTier = meters.tierBytes("memory");
        diskTier = meters.tierBytes("disk");
        memoryResidence = meters.tierResidence("memory");
        diskResidence = meters.tierResidence("disk");
        remoteBytes = meters.level(Names.REMOTE_BYTES);
        freshnessLag = meters.level(Names.FRESHNESS_LAG, UNKNOWN);
        recall = meters.ratio(Names.RECALL_ESTIMATE);
        margin = meters.ratio(Names.RECALL_MARGIN);
    }

    /**
     * Sets all gauges.
     *
     * @param stats of the engine: see {@link io.vstream.nativecore.NativeEngine#statsJson}
     * @param frontier how much of the vector stream is applied
     * @param nowMillis since 1970
     */
    void show(JsonNode stats, Frontier frontier, long nowMillis) {
        rows.set(stats.path("live-rows").asLong());
        deleted.set(stats.path("deleted-rows").asLong());
        long inMemory = stats.path("memory-bytes").asLong();
        memory.set(inMemory);
        memoryTier.set(inMemory - stats.path("cache-bytes").asLong());
        JsonNode remote = stats.path("remote");
        diskTier.set(remote.path("local-bytes").asLong(stats.path("segment-bytes").asLong()));
        memoryResidence.set(stats.path("in-memory-ms").asLong(UNKNOWN));
        diskResidence.set(stats.path("on-disk-ms").asLong(UNKNOWN));
        remoteBytes.set(remote.path("remote-bytes").asLong());
        JsonNode estimate = stats.path("recall");
        recall.set(estimate.path("mean").asDouble(Double.NaN));
        margin.set(estimate.path("margin").asDouble(Double.NaN));
        boolean timed = frontier.watermark() != Frontier.NO_TIME;
        freshnessLag.set(timed ? Math.max(0, nowMillis - frontier.watermark()) : UNKNOWN);
    }
}
