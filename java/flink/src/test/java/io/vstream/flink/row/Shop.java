package io.vstream.flink.row;

import java.util.List;

/** The schema of the tests: products of a shop. */
public final class Shop {

    /** Settings of its rows, for a collection. */
    public static final String KEYS =
            "\"attributes\": {\"colour\": \"keyword\", \"tags\": \"keywords\", \"price\": \"f64\","
                    + " \"stock\": \"i64\", \"new\": \"bool\", \"since\": \"timestamp\"}";

    private static final List<Schema.Attribute> ATTRIBUTES =
            List.of(
                    new Schema.Attribute("colour", AttributeKind.KEYWORD),
                    new Schema.Attribute("tags", AttributeKind.KEYWORDS),
                    new Schema.Attribute("price", AttributeKind.F64),
                    new Schema.Attribute("stock", AttributeKind.I64),
                    new Schema.Attribute("new", AttributeKind.BOOL),
                    new Schema.Attribute("since", AttributeKind.TIMESTAMP));

    /** Products whose ids are numbers. */
    public static final Schema NUMBERS = new Schema(false, ATTRIBUTES, 1 << 20, 42);

    /** Products whose ids are texts. */
    public static final Schema TEXTS = new Schema(true, ATTRIBUTES, 1 << 20, 42);

    private Shop() {}
}
