package io.vstream.flink.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.junit.jupiter.api.Test;

class SchemaRegistryTest {

    private static final Map<String, String> USER =
            Map.of(SchemaRegistry.USER_INFO, "reader:an open door");

    @Test
    void credentialsOfTheEnvironmentAreSent() throws Exception {
        try (RegistryStub registry = new RegistryStub()) {
            new SchemaRegistry(registry.address(), USER).schema(0);
            new SchemaRegistry(registry.address(), Map.of(SchemaRegistry.TOKEN, "a-token\n"))
                    .schema(0);
            new SchemaRegistry(registry.address(), Map.of()).schema(0);
            assertThat(registry.credentials())
                    .containsExactly("Basic cmVhZGVyOmFuIG9wZW4gZG9vcg==", "Bearer a-token", null);
        }
    }

    @Test
    void credentialsAreNotSentForEverybodyToRead() {
        assertThatThrownBy(() -> new SchemaRegistry("http://192.0.2.1:8081", USER))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("http://192.0.2.1:8081 is not encrypted. Use https.")
                .hasMessageNotContaining("open door");
        new SchemaRegistry("https://192.0.2.1:8081", USER);
        new SchemaRegistry("http://192.0.2.1:8081", Map.of());
    }
}
