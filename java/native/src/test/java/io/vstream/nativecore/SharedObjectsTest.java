package io.vstream.nativecore;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class SharedObjectsTest {

    private final List<String> made = new ArrayList<>();
    private final List<Long> destroyed = new ArrayList<>();
    private final SharedObjects objects =
            new SharedObjects("thing", this::make, number -> destroyed.add(number));

    private long make(byte[] bytes) {
        if (bytes.length == 0) {
            throw new EngineException(EngineException.Kind.CORRUPT, "There is nothing.");
        }
        made.add(new String(bytes, StandardCharsets.UTF_8));
        return made.size();
    }

    private NativeHandle of(String text) {
        return objects.of(text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void theSameBytesAreOneObjectUntilTheLastOwnerCloses() {
        NativeHandle first = of("a");
        NativeHandle second = of("a");
        NativeHandle other = of("b");
        assertThat(first.number()).isEqualTo(second.number()).isNotEqualTo(other.number());
        assertThat(made).containsExactly("a", "b");
        first.close();
        first.close();
        assertThat(destroyed).isEmpty();
        assertThatThrownBy(first::number).isInstanceOf(EngineException.class);
        assertThat(second.number()).isEqualTo(1);
        second.close();
        assertThat(destroyed).containsExactly(1L);
        NativeHandle again = of("a");
        assertThat(again.number()).isEqualTo(3);
        again.close();
        other.close();
        assertThat(destroyed).containsExactly(1L, 3L, 2L);
        assertThat(objects.count()).isZero();
    }

    @Test
    void bytesThatAreNoObjectHaveNoOwner() {
        assertThatThrownBy(() -> of("")).isInstanceOf(EngineException.class);
        assertThat(objects.count()).isZero();
    }
}
