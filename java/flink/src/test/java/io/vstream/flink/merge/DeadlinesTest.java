package io.vstream.flink.merge;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class DeadlinesTest {

    @Test
    void isAQueueThatGrows() {
        Deadlines deadlines = new Deadlines();
        Deque<Long> model = new ArrayDeque<>();
        SplittableRandom random = new SplittableRandom(1);
        for (long number = 0; number < 20_000; number++) {
            deadlines.add(number, number);
            model.add(number);
            while (!model.isEmpty() && random.nextInt(100) < 45) {
                assertThat(deadlines.due(model.peek() - 1)).isFalse();
                assertThat(deadlines.due(model.peek())).isTrue();
                assertThat(deadlines.take()).isEqualTo(model.poll());
            }
        }
        while (!model.isEmpty()) {
            assertThat(deadlines.take()).isEqualTo(model.poll());
        }
        assertThat(deadlines.due(Long.MAX_VALUE)).isFalse();
    }
}
