package io.vstream.flink.place;

import static org.assertj.core.api.Assertions.assertThat;

import io.vstream.flink.ingest.VectorRecord;
import io.vstream.nativecore.RowFields;
import org.junit.jupiter.api.Test;

class WriteTest {

    private static final long MAY_BE_ELSEWHERE = 1;

    /**
     * An update in a spread group goes to the slice and to the former place. One of the two found
     * the row, and the other one was counted as an update that had found none.
     */
    @Test
    void anUpdateIsNotCountedWhereItsRowMayBeElsewhere() {
        VectorRecord record = new VectorRecord();
        record.id = 4;
        record.update = true;
        record.fields = RowFields.NONE.in("ann");
        Write write = new Write();
        write.inSlice(record, 7, "ann\u00001", 3);
        assertThat(write.update).isTrue();
        assertThat(write.code).isEqualTo(MAY_BE_ELSEWHERE);
        write.followsTo(record, 7);
        assertThat(write.code).isEqualTo(MAY_BE_ELSEWHERE);
        // A group that is in one place is said to lack the row.
        write.grouped(record, 7);
        assertThat(write.code).isZero();
        // The delete in the slice is remembered there, also if it came before the row.
        record.update = false;
        record.delete = true;
        write.inSlice(record, 8, "ann\u00001", 3);
        assertThat(write.code).isZero();
    }
}
