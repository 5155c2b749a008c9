package io.vstream.flink.bench;

import java.util.Arrays;

/** An embedded database behind the small server of {@code bench/job/served}. */
final class ServedClient implements PeerClient {

    private final JsonCalls calls;

    /** The server's one collection is there already. */
    ServedClient(String server) {
        calls = new JsonCalls(server);
    }

    @Override
    public void upsert(long[] ids, float[][] vectors) throws Exception {
        String rows = JsonCalls.matrix(vectors);
        calls.post("/upsert", "{\"ids\":" + Arrays.toString(ids) + ",\"vectors\":" + rows + "}");
    }

    @Override
    public void delete(long[] ids) throws Exception {
        calls.post("/delete", "{\"ids\":" + Arrays.toString(ids) + "}");
    }

    @Override
    public long[] query(float[] vector, int k) throws Exception {
        String body = "{\"vector\":" + Arrays.toString(vector) + ",\"k\":" + k + "}";
        return JsonCalls.longs(calls.post("/query", body).path("ids"));
    }

    @Override
    public void firstRowsWritten() throws Exception {
        calls.post("/first-rows-written", "{}");
    }

    @Override
    public void close() {}
}
