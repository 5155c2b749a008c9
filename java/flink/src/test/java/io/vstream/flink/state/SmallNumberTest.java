package io.vstream.flink.state;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

class SmallNumberTest {

    @Test
    void everyNumberIsReadBack() throws IOException {
        for (int number = 0; number <= SmallNumber.MAX; number++) {
            DataOutputSerializer out = new DataOutputSerializer(2);
            SmallNumber.write(number, out);
            DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
            assertThat(SmallNumber.read(in)).isEqualTo(number);
            assertThat(in.available()).isZero();
        }
    }

    /** The bytes of a shard in layouts from before there were more than 128. */
    @Test
    void aNumberBelow128IsItsByte() throws IOException {
        for (int number = 0; number < 128; number++) {
            DataOutputSerializer out = new DataOutputSerializer(2);
            SmallNumber.write(number, out);
            assertThat(out.getCopyOfBuffer()).containsExactly(number);
        }
    }
}
