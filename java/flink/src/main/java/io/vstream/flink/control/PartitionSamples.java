package io.vstream.flink.control;

import io.vstream.flink.handover.SampleSlice;

/** The last sample of live rows that each partition has sent, slice by slice. */
final class PartitionSamples {

    private final SampleSlice[][] drawn;

    /**
     * @param partitions of the job
     */
    PartitionSamples(int partitions) {
        drawn = new SampleSlice[partitions][SampleSlice.SLICES];
    }

    /** Takes what one partition says. */
    void take(int partition, SampleSlice slice) {
        drawn[partition][slice.slice()] = slice;
    }

    /** True if every partition has sent a whole sample. */
    boolean complete() {
        for (SampleSlice[] slices : drawn) {
            for (SampleSlice slice : slices) {
                if (slice == null) {
                    return false;
                }
            }
        }
        return true;
    }

    /** The least share that a slice was drawn with. */
    double share() {
        double least = 1;
        for (SampleSlice[] slices : drawn) {
            for (SampleSlice slice : slices) {
                least = Math.min(least, slice.share());
            }
        }
        return least;
    }

    /** All rows, one after the other. */
    byte[] rows() {
        int size = 0;
        for (SampleSlice[] slices : drawn) {
            for (SampleSlice slice : slices) {
                size += slice.rows().length;
            }
        }
        byte[] all = new byte[size];
        int end = 0;
        for (SampleSlice[] slices : drawn) {
            for (SampleSlice slice : slices) {
                System.arraycopy(slice.rows(), 0, all, end, slice.rows().length);
                end += slice.rows().length;
            }
        }
        return all;
    }
}
