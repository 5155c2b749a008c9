package io.vstream.flink.search;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.streaming.runtime.tasks.StreamTaskActionExecutor;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxExecutorImpl;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class HandoverExecutorTest {

    private final MailboxExecutorImpl mailbox =
            new MailboxExecutorImpl(
                    new TaskMailboxImpl(),
                    0,
                    StreamTaskActionExecutor.IMMEDIATE,
                    new MailboxProcessor(controller -> {}));

    /** A hand-over waits for what is done here, and all later ones for it. */
    @Test
    void anErrorFailsTheTask() {
        try (HandoverExecutor executor =
                new HandoverExecutor("test", null, () -> {}, mailbox, null)) {
            executor.executeAsync(
                    () -> {
                        throw new OutOfMemoryError("Cannot reserve bytes of direct memory.");
                    },
                    never -> {});
            assertThatThrownBy(mailbox::yield).hasStackTraceContaining("Cannot reserve bytes");
        }
    }
}
