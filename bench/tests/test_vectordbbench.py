"""Rows, labels and truth for VectorDBBench."""

import numpy as np

import rows
from rows import LABELS, labels, nearest, read, unit


def test_a_matrix_is_read_as_it_was_written(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(70, 96)).astype("<f4")
    path = tmp_path / "some.fbin"
    path.write_bytes(np.array([70, 96], "<i4").tobytes() + vectors.tobytes())
    assert (read(path, None) == vectors).all()
    assert (read(path, 20) == vectors[:20]).all()
    assert (read(path, 900) == vectors).all()


def test_neighbours_are_those_of_a_full_sort_also_among_chosen_rows(monkeypatch):
    # Rows come in several pieces.
    monkeypatch.setattr(rows, "TOGETHER", 300)
    random = np.random.default_rng(2)
    base = unit(random.normal(size=(1_000, 128)))
    queries = unit(random.normal(size=(9, 128)))
    for chosen in [np.arange(1_000), np.arange(0, 1_000, 7), np.arange(5)]:
        found = nearest(base, queries, 20, chosen)
        scores = queries @ base[chosen].T
        for at, ids in enumerate(found):
            assert ids == chosen[np.argsort(-scores[at], kind="stable")[:20]].tolist()


def test_as_many_rows_have_a_label_as_its_name_says():
    drawn = labels(100_000)
    for share, name in LABELS.items():
        assert abs((drawn == name).mean() - share) < 0.005, name
    assert (labels(100_000) == drawn).all()
