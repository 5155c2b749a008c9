"""The classes for asyncio have what the others have."""

import asyncio
import inspect

import pytest

import vstream

PAIRS = [
    (vstream.Collection, vstream.AsyncCollection),
    (vstream.GroupCollection, vstream.AsyncGroupCollection),
    (vstream.Group, vstream.AsyncGroup),
    (vstream.Job, vstream.AsyncJob),
]


def names(one):
    return {name for name in dir(one) if not name.startswith("_")}


@pytest.mark.parametrize(("plain", "awaited"), PAIRS)
def test_every_public_name_is_there(plain, awaited):
    """`restore`, `add_attribute` and `exists` were missing while the documentation had them."""
    assert names(plain) - names(awaited) == set()
    for name in names(plain):
        is_setting = isinstance(inspect.getattr_static(plain, name), property)
        assert isinstance(inspect.getattr_static(awaited, name), property) == is_setting, name


def test_a_snapshot_is_restored(tmp_path):
    async def run():
        assert not vstream.AsyncCollection.exists(tmp_path / "rows")
        async with vstream.AsyncCollection.create(1, path=tmp_path / "rows") as c:
            await c.add_attribute("price", "f64")
            await c.upsert([1, 2], [[1], [2]], {"price": [1.0, 2.0]})
            await c.snapshot(tmp_path / "backup")
        assert vstream.AsyncCollection.exists(tmp_path / "rows")
        assert c.closed
        back = vstream.AsyncCollection.restore(tmp_path / "backup", recall_target=0.9)
        assert (back.dimension, back.metric, back.element) == (1, "l2", "f32")
        assert (back.attributes, back.groups, back.path) == ({"price": "f64"}, None, None)
        assert back.recall_target == 0.9
        return (await back.search([2.2], k=1, where={"price": {"$gt": 1}})).ids.tolist()

    assert asyncio.run(run()) == [2]


def test_settings_of_groups_are_there(tmp_path):
    mail = vstream.AsyncGroupCollection.create(1, path=tmp_path / "mail", attributes={"n": "i64"})
    assert vstream.AsyncGroupCollection.exists(tmp_path / "mail")
    assert (mail.attributes, mail.id, mail.closed) == ({"n": "i64"}, "u64", False)
    ann = mail.group("ann")
    assert (ann.attributes, ann.metric, ann.name) == ({"n": "i64"}, "l2", "ann")
    assert ann.collection.collection is mail.collection
    with pytest.raises(vstream.InvalidInput, match="isolated"):
        asyncio.run(mail.search([1]))
    with pytest.raises(vstream.InvalidInput, match="AsyncGroupCollection"):
        vstream.AsyncCollection.create(1, groups="isolated")
