package io.vstream.flink.source;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class GateTest {

    @Test
    void aSourceThatStartsAgainShutsIt() {
        Gate gate = Gate.install("shut");
        try {
            int before = gate.round();
            gate.open(1, before);
            assertThat(gate.passes(1)).isTrue();
            assertThat(gate.passes(2)).isFalse();
            Gate.find("shut").shut();
            assertThat(gate.passes(0)).isFalse();
            // Decided by what was before the restart.
            gate.open(1, before);
            assertThat(gate.passes(1)).isFalse();
            gate.open(1, gate.round());
            assertThat(gate.passes(1)).isTrue();
        } finally {
            Gate.release("shut");
        }
    }

    @Test
    void whereNobodyKeepsOneItStaysOpen() {
        Gate gate = Gate.find("nobody");
        gate.shut();
        assertThat(gate.passes(Integer.MAX_VALUE)).isTrue();
    }
}
