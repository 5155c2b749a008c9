package io.vstream.peers;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.milvus.v2.client.ConnectConfig;
import io.milvus.v2.client.MilvusClientV2;
import io.milvus.v2.common.DataType;
import io.milvus.v2.common.IndexParam;
import io.milvus.v2.service.collection.request.AddFieldReq;
import io.milvus.v2.service.collection.request.CreateCollectionReq;
import io.milvus.v2.service.collection.request.HasCollectionReq;
import io.milvus.v2.service.collection.request.LoadCollectionReq;
import io.milvus.v2.service.utility.request.FlushReq;
import io.milvus.v2.service.vector.request.DeleteReq;
import io.milvus.v2.service.vector.request.SearchReq;
import io.milvus.v2.service.vector.request.UpsertReq;
import io.milvus.v2.service.vector.request.data.FloatVec;
import io.vstream.flink.bench.PeerClient;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;

/**
 * Milvus Lite's server by the client of Milvus, over gRPC. Cosine, HNSW with 16 neighbours, ef 200
 * and 100.
 *
 * <ul>
 *   <li>The consistency level is the client's own, Bounded. Lite does not look at it: a row is seen
 *       by every query that begins after its write has returned, unless a flush begins then.
 *   <li>Lite keeps new rows without an index until they fill 128 MiB, and compares each query with
 *       all of them. So the first rows are flushed and loaded once they are there, which builds
 *       their graph, as a user does after a bulk import; later rows come to it in the same way when
 *       they are many.
 *   <li>Lite allows one writer of a collection at a time, so writes of this process wait for each
 *       other.
 * </ul>
 */
final class MilvusClient implements PeerClient {

    private static final String ROWS = "rows";
    private static final String ID = "id";
    private static final String VECTOR = "vector";
    private static final int NEIGHBOURS = 16;
    private static final int EF_CONSTRUCTION = 200;
    private static final int EF = 100;
    private static final long BUILD_MILLIS_MAX = 600_000;

    /** Held by the one that writes. */
    private static final Object WRITING = new Object();

    private final MilvusClientV2 client;

    private MilvusClient(MilvusClientV2 client) {
        this.client = client;
    }

    /** A client, whose collection is made if it is not there. */
    static MilvusClient connect(String server, int dimension) {
        MilvusClientV2 client =
                new MilvusClientV2(ConnectConfig.builder().uri("http://" + server).build());
        synchronized (WRITING) {
            if (!client.hasCollection(HasCollectionReq.builder().collectionName(ROWS).build())) {
                client.createCollection(collection(dimension));
            }
        }
        return new MilvusClient(client);
    }

    @Override
    public void upsert(long[] ids, float[][] vectors) {
        List<JsonObject> rows = new ArrayList<>(ids.length);
        for (int i = 0; i < ids.length; i++) {
            JsonArray vector = new JsonArray(vectors[i].length);
            for (float one : vectors[i]) {
                vector.add(one);
            }
            JsonObject row = new JsonObject();
            row.addProperty(ID, ids[i]);
            row.add(VECTOR, vector);
            rows.add(row);
        }
        UpsertReq request = UpsertReq.builder().collectionName(ROWS).data(rows).build();
        synchronized (WRITING) {
            client.upsert(request);
        }
    }

    @Override
    public void delete(long[] ids) {
        List<Object> gone = LongStream.of(ids).<Object>mapToObj(id -> id).toList();
        DeleteReq request = DeleteReq.builder().collectionName(ROWS).ids(gone).build();
        synchronized (WRITING) {
            client.delete(request);
        }
    }

    @Override
    public long[] query(float[] vector, int k) {
        return client
                .search(
                        SearchReq.builder()
                                .collectionName(ROWS)
                                .annsField(VECTOR)
                                .metricType(IndexParam.MetricType.COSINE)
                                .data(List.of(new FloatVec(vector)))
                                .limit(k)
                                .searchParams(Map.of("ef", EF))
                                .build())
                .getSearchResults()
                .get(0)
                .stream()
                .mapToLong(row -> (Long) row.getId())
                .toArray();
    }

    @Override
    public void firstRowsWritten() {
        synchronized (WRITING) {
            client.flush(
                    FlushReq.builder()
                            .collectionNames(List.of(ROWS))
                            .waitFlushedTimeoutMs(BUILD_MILLIS_MAX)
                            .build());
            client.loadCollection(
                    LoadCollectionReq.builder()
                            .collectionName(ROWS)
                            .timeout(BUILD_MILLIS_MAX)
                            .build());
        }
    }

    @Override
    public void close() {
        client.close();
    }

    private static CreateCollectionReq collection(int dimension) {
        CreateCollectionReq.CollectionSchema schema = MilvusClientV2.CreateSchema();
        schema.addField(
                AddFieldReq.builder()
                        .fieldName(ID)
                        .dataType(DataType.Int64)
                        .isPrimaryKey(true)
                        .autoID(false)
                        .build());
        schema.addField(
                AddFieldReq.builder()
                        .fieldName(VECTOR)
                        .dataType(DataType.FloatVector)
                        .dimension(dimension)
                        .build());
        IndexParam index =
                IndexParam.builder()
                        .fieldName(VECTOR)
                        .indexType(IndexParam.IndexType.HNSW)
                        .metricType(IndexParam.MetricType.COSINE)
                        .extraParams(Map.of("M", NEIGHBOURS, "efConstruction", EF_CONSTRUCTION))
                        .build();
        return CreateCollectionReq.builder()
                .collectionName(ROWS)
                .collectionSchema(schema)
                .indexParams(List.of(index))
                .build();
    }
}
