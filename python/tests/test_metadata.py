"""Metadata as attributes: what no attribute can hold is left out, and nothing is refused for it."""

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vstream
from vstream import metadata

FAR = datetime.timezone(datetime.timedelta(hours=-5))
UNFIT = {
    "a long text": "x" * 4097,
    "a long text in UTF-8": "\u00e9" * 2049,
    "half of a pair": "\ud800",
    "a large number": 2**63,
    "a small number": -(2**63) - 1,
    "beyond all floats": 10**400,
    "nan": math.nan,
    "infinity": -math.inf,
    "after the year 9999": datetime.datetime(9999, 12, 31, 23, tzinfo=FAR),
    "a long list": ["x"] * 1025,
    "a list with a long text": ["x", "x" * 4097],
    "a list with half of a pair": ["\ud800"],
    "a list of numbers": [1, 2],
    "a dictionary": {"a": 1},
    "none": None,
}
FIT = {
    "text": "x" * 4096,
    "large": 2**63 - 1,
    "float": 1e308,
    "truth": True,
    "day": datetime.date(1, 1, 1),
    "list": ["x"] * 1024,
    "set": {"x", "y"},
    "empty": [],
    "n" * 128: 1,
}


def stored(metadatas, known=None):
    """Store metadata in an open collection, and return what it has as attributes."""
    c = vstream.Collection.create(1, attributes=known, open_attributes=True)
    ids = range(len(metadatas))
    c.upsert(list(ids), [[1.0]] * len(ids), metadata.columns(metadatas, c.attributes))
    return c.get(list(ids), list(c.attributes)).attributes


def test_what_an_attribute_can_hold_is_there():
    found = stored([FIT])
    assert found.keys() == FIT.keys()
    assert found["large"] == [2**63 - 1]
    assert sorted(found["set"][0]) == ["x", "y"]


@pytest.mark.parametrize("name", UNFIT)
def test_what_no_attribute_can_hold_is_left_out(name):
    assert stored([{name: UNFIT[name], "year": 1861}]) == {"year": [1861]}
    found = stored([{"year": 1861, name: "fits"}, {"year": 1862, name: UNFIT[name]}])
    assert found == {"year": [1861, 1862], name: ["fits", None]}


@pytest.mark.parametrize("name", ["", "$a", "n" * 129, "\u00e9" * 65, "\ud800", 7])
def test_what_is_no_name_is_left_out(name):
    assert stored([{name: 1, "year": 1861}]) == {"year": [1861]}


def test_names_beyond_those_of_a_collection_are_left_out():
    found = stored([{f"name {at}": at for at in range(300)}], {"there": "i64"})
    assert list(found) == ["there", *(f"name {at}" for at in range(255))]


def test_values_beyond_the_bytes_of_a_row_are_left_out():
    texts = {f"text {at}": "x" * 4096 for at in range(20)}
    found = stored([{**texts, "year": 1861}, {"year": 1862}])
    assert sum(values[0] is not None for values in found.values()) == 16
    assert found["year"] == [1861, 1862]


def test_numbers_fit_the_type_that_is_there():
    assert metadata.columns([{"a": 2**70}], {"a": "f64"}) == {"a": [2**70]}
    assert metadata.columns([{"a": 2**62}, {"a": 0}], {"a": "timestamp"}) == {"a": [None, 0]}
    assert metadata.columns([{"a": "x" * 5000}], {"a": "text"}) == {"a": ["x" * 5000]}


def test_a_value_of_another_type_is_left_for_the_collection_to_refuse():
    with pytest.raises(vstream.InvalidInput, match="'year'"):
        stored([{"year": 1861}, {"year": "soon"}])


values = st.one_of(
    st.text(), st.lists(st.text()), st.integers(), st.floats(), st.booleans(), st.none()
)


@given(st.dictionaries(st.text(), values))
def test_no_row_is_refused(row):
    stored([row])
