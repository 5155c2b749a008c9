"""Every kind of argument: what is taken, and what is refused before anything changes."""

import decimal
import tracemalloc

import numpy as np
import pytest

import vstream
from vstream import Collection, InvalidInput

NAN, INF = float("nan"), float("inf")

# Two rows of three dimensions, in every form that a program may hold them in.
ROWS = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
FORMS = {
    "float32": ROWS,
    "float64": ROWS.astype(np.float64),
    "float16": ROWS.astype(np.float16),
    "longdouble": ROWS.astype(np.longdouble),
    "uint8": ROWS.astype(np.uint8),
    "int8": ROWS.astype(np.int8),
    "uint16": ROWS.astype(np.uint16),
    "float16 stored by columns": np.asfortranarray(ROWS.astype(np.float16)),
    "float16 of other byte order": ROWS.astype(">f2"),
    "int64": ROWS.astype(np.int64),
    "list": ROWS.tolist(),
    "tuple of arrays": tuple(ROWS),
    "stored by columns": np.asfortranarray(ROWS),
    "uint8 stored by columns": np.asfortranarray(ROWS.astype(np.uint8)),
    "every second row": np.repeat(ROWS, 2, axis=0)[::2],
    "reversed": ROWS[::-1].copy()[::-1],
    "other byte order": ROWS.astype(">f4"),
    "read-only": np.frombuffer(ROWS.tobytes(), np.float32).reshape(2, 3),
    "not aligned": np.frombuffer(b"x" + ROWS.tobytes(), np.float32, offset=1).reshape(2, 3),
    "subclass": ROWS.view(np.recarray),
}
IDS = {
    "list": [1, 2],
    "tuple": (1, 2),
    "range": range(1, 3),
    "numpy scalars": [np.int8(1), np.uint64(2)],
    "objects": np.array([1, 2], object),
    **{str(t): np.array([1, 2], t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")},
    "other byte order": np.array([1, 2], ">i8"),
    "every second": np.array([1, 0, 2, 0])[::2],
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_any_form(form):
    c = Collection.create(3)
    c.upsert([1, 2], FORMS[form])
    assert c.search([1, 2, 3])[1].tolist() == [0.0, 27.0]
    ids, distances = c.search_batch(FORMS[form], 1)
    assert ids.tolist() == [[1], [2]]
    assert distances.tolist() == [[0.0], [0.0]]
    c.upsert(3, FORMS[form][0])
    assert c.search(FORMS[form][0])[0].tolist() == [1, 3, 2]


@pytest.mark.parametrize("form", IDS)
def test_ids_in_any_form(form):
    c = Collection.create(3)
    c.upsert(IDS[form], ROWS)
    assert c.search(ROWS[1])[0].tolist() == [2, 1]
    assert c.delete(IDS[form]) == 2


@pytest.mark.parametrize("one", [5, np.int64(5), np.uint8(5), np.array(5)])
def test_one_id_in_any_form(one):
    c = Collection.create(1)
    c.upsert(one, [0])
    assert c.search([0])[0].tolist() == [5]
    assert c.delete(one) == 1


def test_packed_arrays_are_read_in_place(rng):
    """A copy of the matrix would be seen as memory that numpy asked for."""
    rows = rng.standard_normal((4096, 64), dtype=np.float32)
    ids = np.arange(4096)
    c = Collection.create(64)
    narrow = {
        "u8": np.abs(rows).astype(np.uint8),
        "i8": rows.astype(np.int8),
        "f16": rows.astype(np.float16),
    }
    collections = {element: Collection.create(64, element=element) for element in narrow}
    tracemalloc.start()
    try:
        c.upsert(ids, rows)
        c.upsert(ids.astype(np.uint64), rows)
        for element, matrix in narrow.items():
            collections[element].upsert(ids, matrix)
        assert tracemalloc.get_traced_memory()[1] < rows.nbytes / 8
    finally:
        tracemalloc.stop()


def test_arguments_are_not_changed(rng):
    rows = rng.standard_normal((100, 8), dtype=np.float32)
    before = rows.copy()
    c = Collection.create(8, "cosine")
    c.upsert(np.arange(100), rows)
    c.upsert(0, rows[0])
    c.search(rows[0])
    c.search_batch(rows)
    np.testing.assert_array_equal(rows, before)


def test_rows_are_the_collections_own():
    row = np.array([1, 2], np.float32)
    c = Collection.create(2)
    c.upsert(1, row)
    row[:] = 9
    assert c.search([1, 2])[1].tolist() == [0.0]


def test_no_ids_and_no_rows_are_fine():
    c = Collection.create(3)
    c.upsert([], np.empty((0, 3)))
    assert len(c) == 0


BAD_VECTORS = [
    ([1, 2], "has 2 dimensions|have 2 dimensions|the vector has 2"),
    ([1, 2, 3, 4], "4 dimensions"),
    ([], "0 dimensions"),
    ([[1, 2, 3]], "2 axes"),
    (1.0, "0 axes"),
    ([1, NAN, 3], "NaN at position 1"),
    ([1, 2, INF], "inf at position 2"),
    ([-INF, 2, 3], "-inf at position 0"),
    ([1e39, 0, 0], "too large for float32"),
    (np.array([1, 2, 3], complex), "complex128"),
    (np.array([True, False, True]), "bool"),
    (np.array([1, 2, 3], "datetime64[s]"), "datetime64"),
    (["a", "b", "c"], "U1"),
    ("abc", "U3"),
    (b"abc", "S3"),
    (None, "object"),
    ({"x": 1}, "object"),
    ([[1], [2, 3]], "no array of numbers"),
    ([decimal.Decimal(1)] * 3, "object"),
    (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), "masked"),
]


@pytest.mark.parametrize(("vector", "message"), BAD_VECTORS)
def test_bad_vectors_are_refused(vector, message):
    c = Collection.create(3)
    c.upsert(1, [1, 1, 1])
    with pytest.raises(InvalidInput, match=message):
        c.upsert(1, vector)
    with pytest.raises(InvalidInput, match=message):
        c.search(vector)
    assert c.search([1, 1, 1])[1].tolist() == [0.0]


BAD_MATRICES = [
    ([1, 2, 3], "1 axes"),
    (np.zeros((2, 3, 1)), "3 axes"),
    (np.zeros((2, 4)), "4 dimensions"),
    (np.zeros((2, 4), np.uint8), "4 dimensions"),
    (np.zeros((2, 0)), "0 dimensions"),
    ([[1, 2, 3], [1, NAN, 3]], "row 1 of the vectors holds NaN at position 1|holds NaN"),
    ([[1, 2, 3], [1, 2, -1e39]], "too large"),
    ([[1, 2, 3], [1, 2]], "no array"),
    (np.array([["a", "b", "c"]] * 2), "U1"),
]


@pytest.mark.parametrize(("matrix", "message"), BAD_MATRICES)
def test_bad_matrices_are_refused(matrix, message):
    c = Collection.create(3)
    with pytest.raises(InvalidInput, match=message):
        c.upsert([1, 2], matrix)
    assert len(c) == 0
    with pytest.raises(InvalidInput, match=message):
        c.search_batch(matrix)


BAD_IDS = [
    (-1, "the id is -1"),
    (2**63, "2\\*\\*63 - 1"),
    (2**64, "2\\*\\*63 - 1"),
    (1.0, "float"),
    (True, "True"),
    (np.bool_(True), "True"),
    ("1", "numbers as ids"),
    ({1}, "set"),
    ([-1], "position 0"),
    ([1.5], "float"),
    (["1"], "numbers as ids"),
    ([True], "True"),
    ([None], "NoneType"),
    ([2**63], "2\\*\\*63 - 1"),
    ([2**64], "2\\*\\*63 - 1"),
    ([[1]], "2 axes"),
    (np.array([2**63], np.uint64), "position 0"),
    (np.array([1.0]), "float64"),
    (np.array([True]), "bool"),
    (np.array([[1], [2, 3]], object)[:1], "list"),
    (np.ma.array([1], mask=[1]), "masked"),
]


@pytest.mark.parametrize(("ids", "message"), BAD_IDS)
def test_bad_ids_are_refused(ids, message):
    c = Collection.create(1)
    vectors = [1] if np.ndim(ids) == 0 else [[1]]
    with pytest.raises(InvalidInput, match=message):
        c.upsert(ids, vectors)
    with pytest.raises(InvalidInput, match=message):
        c.delete(ids)
    assert len(c) == 0


@pytest.mark.parametrize("radius", ["near", b"1", None, [1.0], True, object()])
def test_a_radius_that_is_no_number_is_refused(radius):
    c = Collection.create(1)
    with pytest.raises(InvalidInput, match=r"radius is .*: pass a number"):
        c.search_radius([1], radius)


def test_no_id_at_all_is_refused():
    c = Collection.create(1)
    with pytest.raises(InvalidInput, match="NoneType"):
        c.upsert(None, [1])
    with pytest.raises(InvalidInput, match="either ids or where"):
        c.delete(None)
    assert len(c) == 0


def test_ids_and_vectors_must_be_as_many():
    c = Collection.create(1)
    for ids in ([1], [1, 2, 3], []):
        with pytest.raises(InvalidInput, match=f"{len(ids)} ids and 2 vectors"):
            c.upsert(ids, [[1], [2]])


def test_a_bad_row_stops_the_call_before_the_first_change(rng):
    rows = rng.standard_normal((5000, 4), dtype=np.float32)
    rows[4999, 3] = NAN
    c = Collection.create(4)
    with pytest.raises(InvalidInput, match="row 4999 of the vectors holds NaN at position 3"):
        c.upsert(np.arange(5000), rows)
    ids = np.arange(4999)
    ids[-1] = -7
    with pytest.raises(InvalidInput, match="position 4998"):
        c.upsert(ids, rows[:-1])
    assert len(c) == 0


@pytest.mark.parametrize("vector", [[0, 0], [3e38, 3e38]])
def test_cosine_refuses_a_vector_without_direction(vector):
    c = Collection.create(2, "cosine")
    for call in (
        lambda: c.upsert(1, vector),
        lambda: c.upsert([1], [vector]),
        lambda: c.search(vector),
    ):
        with pytest.raises(InvalidInput, match="no direction"):
            call()


@pytest.mark.parametrize("metric", ["l2", "inner_product"])
def test_a_norm_that_arithmetic_cannot_hold_is_refused(metric, rng):
    c = Collection.create(64, metric)
    rows = rng.standard_normal((3000, 64), dtype=np.float32)
    c.upsert(np.arange(3000), rows)
    for large in (rows[2999] * 1e15, np.float32([0] * 63 + [3e38])):
        rows[2999] = large
        for call in (
            lambda: c.upsert(1, rows[2999]),
            lambda: c.upsert(np.arange(3000), rows),
            lambda: c.search(rows[2999]),
        ):
            with pytest.raises(InvalidInput, match=f"{metric} takes norms up to 1e15"):
                call()
    assert len(c) == 3000
    assert c.search(rows[0], k=1)[0] == [0]
    c.upsert(3000, [1e14] * 64)
    assert c.search([1e14] * 64, k=1)[0] == [3000]


REFUSED = {
    "u8": ([-1, 256, 0.5], "element u8 takes whole numbers from 0 to 255"),
    "i8": ([-129, 128, 0.5], "element i8 takes whole numbers from -128 to 127"),
    "f16": ([65_520, -1e30], "element f16 takes numbers from -65504 to 65504"),
    "bf16": ([3.4e38, -3.4e38], "element bf16 takes numbers from -3.38e38 to 3.38e38"),
}


@pytest.mark.parametrize("element", REFUSED)
def test_what_an_element_cannot_hold_is_refused(element):
    c = Collection.create(2, element=element)
    values, message = REFUSED[element]
    for value in values:
        with pytest.raises(InvalidInput, match=f"at position 1: {message}"):
            c.upsert(1, [0, value])
        with pytest.raises(InvalidInput, match=f"at position 1: {message}"):
            c.upsert([1], [[0, value]])
        if abs(value) < 1e15:
            assert c.search([0, value])[0].shape == (0,)


def test_values_are_rounded_to_the_element():
    third = np.float32(1) / np.float32(3)
    for element, kept in (("f16", np.float16(third)), ("bf16", np.float32(0.333984375))):
        c = Collection.create(1, element=element)
        c.upsert(1, [third])
        c.upsert([2], np.array([[third]], np.float32))
        assert c.search([np.float32(kept)])[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "uint8", "int8"])
def test_elements_have_the_names_of_numpy_too(name):
    short = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8", "int8": "i8"}
    assert Collection.create(1, element=name).element == short[name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 1001}, "from 1 to 1000"),
        ({"k": 10**12}, "from 1 to 1000"),
        ({"k": -1}, "k is -1"),
        ({"k": 2**70}, "k is"),
        ({"k": 1.0}, "float"),
        ({"k": None}, "NoneType"),
        ({"k": True}, "True"),
        ({"probes": 0}, "probes is 0"),
        ({"probes": -1}, "probes is -1"),
        ({"probes": 1.5}, "float"),
        ({"refine": 10}, "refine goes with probes"),
        ({"probes": 3, "refine": 0}, "refine is 0"),
        ({"recall_target": 0}, "recall_target is 0"),
        ({"recall_target": 1.5}, "recall_target is 1.5"),
        ({"recall_target": NAN}, "recall_target is NaN"),
        ({"recall_target": "high"}, "pass a number"),
        ({"exact": 1}, "True or False"),
        ({"exact": None}, "True or False"),
        ({"exact": True, "probes": 3}, "exclude each other"),
        ({"recall_target": 0.9, "probes": 3}, "exclude each other"),
        ({"recall_target": 0.9, "exact": True}, "exclude each other"),
    ],
)
def test_bad_search_arguments_are_refused(arguments, message):
    c = Collection.create(1)
    with pytest.raises(InvalidInput, match=message):
        c.search([1], **arguments)
    with pytest.raises(InvalidInput, match=message):
        c.search_batch([[1]], **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimension": 0}, "from 1 to 4096"),
        ({"dimension": 4097}, "from 1 to 4096"),
        ({"dimension": -1}, "dimension is -1"),
        ({"dimension": 2.0}, "float"),
        ({"dimension": "2"}, "str"),
        ({"metric": "manhattan"}, "l2, cosine, inner_product"),
        ({"metric": None}, "NoneType"),
        ({"element": "f64"}, "f32, f16, bf16, u8, i8"),
        ({"element": np.float32}, "type"),
        ({"recall_target": 0.4}, "0.5 to 0.999"),
        ({"recall_target": 1}, "0.5 to 0.999"),
        ({"recall_target": NAN}, "0.5 to 0.999"),
        ({"recall_target": []}, "list"),
        ({"path": 5}, "int"),
        ({"path": ""}, "no path"),
        ({"path": b"/tmp"}, "no path"),
        ({"path": "a\0b"}, "no path"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Collection.create(**{"dimension": 2, **arguments})


def test_exceptions_are_one_family():
    family = [getattr(vstream, name) for name in vstream.__all__]
    family = [e for e in family if isinstance(e, type) and issubclass(e, Exception)]
    assert len(family) == 8
    assert all(issubclass(e, vstream.VStreamError) for e in family)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(vstream.StorageError, OSError)
