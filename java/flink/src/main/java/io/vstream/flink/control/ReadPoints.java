package io.vstream.flink.control;

import io.vstream.flink.published.LatestFile;
import io.vstream.flink.published.PublishedPartitions;
import io.vstream.flink.published.ReadAddress;
import java.util.ArrayList;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/**
 * The addresses at which partitions answer, as their coordinator hears of them; published once all
 * are known. For one thread.
 */
final class ReadPoints implements AutoCloseable {

    private final String collection;
    private final LatestFile file;
    private final Map<Integer, ReadAddress> known = new TreeMap<>();

    /**
     * @param folder where they are published
     * @param collection normalised settings as JSON
     */
    ReadPoints(Path folder, String collection) {
        this.collection = collection;
        this.file = new LatestFile(PublishedPartitions.path(folder));
    }

    /**
     * Tells where a partition answers.
     *
     * @param partition that answers
     * @param partitions in all
     * @param address of the partition
     */
    record Report(int partition, int partitions, ReadAddress address)
            implements CoordinationRequest {
        private static final long serialVersionUID = 1L;
    }

    /** Takes a report; one that says nothing new changes nothing. */
    void add(Report report) {
        boolean isNew = !report.address.equals(known.put(report.partition, report.address));
        if (isNew && known.size() == report.partitions) {
            file.publish(
                    new PublishedPartitions(
                                    System.currentTimeMillis(),
                                    collection,
                                    new ArrayList<>(known.values()))
                            .toBytes());
        }
    }

    /** Partitions begin anew, maybe elsewhere. */
    void forget() {
        known.clear();
    }

    @Override
    public void close() throws InterruptedException {
        file.close();
    }
}
