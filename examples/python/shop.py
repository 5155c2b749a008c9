"""A shop: prices and stock change in a stream while customers search among what is there.

Each product is a text id with a vector, attributes and a payload. Changes of price and stock are
updates: they leave the vector and its place in the index alone.
"""

import threading
import time

import numpy as np

import vstream

PRODUCTS, DIMENSION, SECONDS = 20_000, 96, 5.0
COLORS = ["red", "green", "blue", "black"]


def products(rng: np.random.Generator) -> dict[str, object]:
    """Return a table of products. Things of one kind are near each other."""
    kinds = rng.standard_normal((200, DIMENSION))
    kind = rng.integers(200, size=PRODUCTS)
    vectors = kinds[kind] + 0.5 * rng.standard_normal((PRODUCTS, DIMENSION))
    return {
        "id": [f"product-{at}" for at in range(PRODUCTS)],
        "vector": vectors.astype(np.float32),
        "price": (rng.gamma(2.0, 20.0, PRODUCTS) + 1).round(2),
        "stock": rng.integers(0, 5, PRODUCTS),
        "color": [COLORS[at] for at in rng.integers(len(COLORS), size=PRODUCTS)],
        "payload": [
            {"title": f"Product {at} of kind {kind[at]}"} for at in range(PRODUCTS)
        ],
    }


def sell(shop: vstream.Collection, end: float) -> None:
    """Sell, restock and reprice single products until `end`."""
    rng = np.random.default_rng(2)
    updates = 0
    while time.monotonic() < end:
        some = rng.integers(PRODUCTS, size=100)
        shop.update(
            [f"product-{at}" for at in some],
            {
                "stock": rng.integers(0, 5, 100),
                "price": (rng.gamma(2.0, 20.0, 100) + 1).round(2),
            },
        )
        updates += 100
    print(f"{updates / SECONDS:,.0f} updates/s")


def main() -> None:
    """Fill the shop, then search while another thread sells."""
    rng = np.random.default_rng(1)
    table = products(rng)
    shop = vstream.Collection.create(
        DIMENSION,
        metric="cosine",
        id="string",
        attributes={"price": "f64", "stock": "i64", "color": "keyword"},
    )
    shop.upsert(table)
    end = time.monotonic() + SECONDS
    seller = threading.Thread(target=sell, args=(shop, end))
    seller.start()
    queries = 0
    vectors = table["vector"]
    assert isinstance(vectors, np.ndarray)
    while time.monotonic() < end:
        found = shop.search(
            vectors[rng.integers(PRODUCTS)],
            k=5,
            where={
                "stock": {"$gt": 0},
                "color": {"$in": ["red", "blue"]},
                "price": {"$lte": 40},
            },
            with_=["price", "color", "stock", "payload"],
        )
        for row in found.rows():
            assert row["stock"] > 0
            assert row["price"] <= 40
            assert row["color"] in ("red", "blue")
        queries += 1
    seller.join()
    print(f"{queries / SECONDS:,.0f} filtered queries/s; the last answer:")
    for row, content in zip(found.rows(), found.json(), strict=True):
        print(
            f"  {row['id']:>14} {row['price']:6.2f} {row['color']:>5} {content['title']}"
        )


if __name__ == "__main__":
    main()
