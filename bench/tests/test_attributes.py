"""WordNet's lines are read as its manual says, and the attributes of a data set come from them."""

import json
import sys

import numpy as np
import pytest

import attributes
import wordnet
from filtered import columns

# Lines of WordNet 3.1, some pointers left out.
NOUN = """  1 This software and database is being provided to you, the LICENSEE.
02086723 05 n 03 dog 0 domestic_dog 0 Canis_familiaris 0 002 @ 02085998 n 0000 ~ 01325095 n 0000 \
| a member of the genus Canis; "the dog barked all night"
02085998 05 n 02 canine 0 canid 0 001 ~ 02086723 n 0000 | any of various fissiped mammals
07692347 13 n 01 hotdog 0 001 + 02086723 n 0000 | a smooth-textured sausage
"""
VERB = """02005890 38 v 02 chase 0 dog 0 001 + 02086723 n 0101 02 + 08 00 + 09 00 | go after
"""
ADJ = """00001740 00 a 01 able 0 000 | (usually followed by `to') having the means
00002098 00 s 01 able-bodied 0 001 & 00001740 a 0000 | strong
"""
ADV = """00001837 02 r 01 a_cappella 0 000 | without musical accompaniment
"""
SENSES = """able%3:00:00:: 00001740 1 12
canine%1:05:00:: 02085998 1 0
chase%2:38:00:: 02005890 1 8
dog%1:05:00:: 02086723 1 42
dog%1:13:01:: 07692347 2 0
dog%2:38:00:: 02005890 1 2
hotdog%1:13:00:: 07692347 1 0
stop%2:30:00:: 00000001 1 30
stop%1:11:00:: 00000002 1 6
"""


@pytest.fixture
def work(tmp_path):
    made = tmp_path / "text.work" / "package" / "dict"
    made.mkdir(parents=True)
    for name, text in {"noun": NOUN, "verb": VERB, "adj": ADJ, "adv": ADV}.items():
        (made / f"data.{name}").write_text(text)
    (made / "index.sense").write_text(SENSES)
    return made


def test_a_synset_has_its_words_topic_and_links(work):
    found = wordnet.synsets(work)
    assert [one.part for one in found] == ["noun"] * 3 + ["verb"] + ["adj"] * 2 + ["adv"]
    dog, verb = found[0], found[3]
    assert dog.words == ("dog", "domestic dog", "Canis familiaris")
    assert dog.topic == "noun.animal"
    assert dog.links == (("noun", 2085998), ("noun", 1325095))
    assert dog.text.startswith("dog, domestic dog, Canis familiaris: a member of the genus Canis;")
    # The frames of a verb stand behind its pointers.
    assert verb.links == (("noun", 2086723),)
    assert found[5].links == (("adj", 1740),)
    assert sorted(one.text for one in wordnet.shuffled(work)) == sorted(one.text for one in found)


def test_a_word_has_the_topic_of_its_most_frequent_sense_and_forms_are_found(work):
    known = wordnet.entries(work)
    assert known["dog"] == wordnet.Entry(
        "noun", "noun.animal", ("noun.animal", "noun.food", "verb.motion"), 3
    )
    assert known["stop"].topic == "verb.change"
    assert wordnet.look_up("dogs", known) == known["dog"]
    assert wordnet.look_up("chased", known) == known["chase"]
    assert wordnet.look_up("chasing", known) == known["chase"]
    # No verb `able`, no noun `stopp`.
    assert wordnet.look_up("abled", known) is None
    assert wordnet.look_up("stopps", known) is None
    assert len(wordnet.TOPICS) == 45


def made(folder, rows, queries, **files):
    chance = np.random.default_rng(5)
    folder.mkdir()
    for part, count in {"base": rows, "query": queries}.items():
        head = np.array([count, 64], dtype="<u4").tobytes()
        values = chance.normal(size=(count, 64)).astype("<f4")
        (folder / f"{part}.fbin").write_bytes(head + values.tobytes())
    meta = {"name": folder.name, "base-rows": rows, "query-rows": queries}
    (folder / "meta.json").write_text(json.dumps(meta))
    for name, text in files.items():
        (folder / f"{name}.words.txt").write_text(text)


def command(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["attributes.py", str(folder)])
    attributes.main()


def test_words_get_attributes_of_wordnet_of_the_corpus_and_random_ones(
    work, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "glove100"
    words = ["dogs", "qqzz", "stop", "canine"] * 500
    made(folder, 2_000, 3, base="\n".join(words) + "\n", query="dog\nx\nable\n")
    ranks = ["the", "stop", "dog", "dogs", "canine", "x", "able"]
    (work.parent.parent / "ranks.json").write_text(json.dumps(ranks))
    command(folder, monkeypatch)
    found = columns.read(folder, "base", 2_000)
    assert found["topic"].plain(0, 4) == ["noun.animal", None, "verb.change", "noun.animal"]
    assert found["topics"].plain(0, 2) == [["noun.animal", "noun.food", "verb.motion"], []]
    assert found["senses"].plain(0, 4) == [3, None, 2, 1]
    assert found["rank"].plain(0, 4) == [3, None, 1, 4]
    assert found["letter"].plain(0, 4) == ["d", "q", "s", "c"]
    assert columns.read(folder, "query", 3)["part"].plain() == ["noun", None, "adj"]
    about = json.loads((folder / "attributes.json").read_text())
    assert about["share-with-a-value"]["topic"] == 0.75
    shares = {"r50": 0.5, "r20": 0.2}
    for name, share in shares.items():
        assert np.mean(found[name].plain()) == pytest.approx(share, abs=0.05), name
    counts = {"r4": 25, "s4": 25, "r1": 100, "r01": 1_000}
    for name, count in counts.items():
        assert len(found[name].words) == count
        assert len(set(found[name].plain())) > 0.8 * min(count, 1_000), name
    assert 0 <= min(found["price"].plain()) < max(found["price"].plain()) <= 100
    # Moments that drift go with the main direction of the vectors; others do not.
    vectors = attributes.read_fbin(folder / "base.fbin")
    along = vectors @ attributes._main_direction(vectors)
    drift = np.corrcoef(along, found["drift"].values)[0, 1]
    assert drift > 0.7
    assert abs(np.corrcoef(along, found["time"].values)[0, 1]) < 0.1
    capsys.readouterr()
    command(folder, monkeypatch)
    assert "has its attributes already" in capsys.readouterr().err


def test_texts_get_the_attributes_of_their_synsets_in_the_order_of_the_rows(
    work, tmp_path, monkeypatch
):
    folder = tmp_path / "text384"
    made(folder, 4, 3)
    command(folder, monkeypatch)
    order = wordnet.shuffled(work)
    found = columns.read(folder, "base", 4)
    assert found["topic"].plain() == [one.topic for one in order[3:]]
    assert columns.read(folder, "query", 3)["topic"].plain() == [one.topic for one in order[:3]]
    every = found["topics"].plain() + columns.read(folder, "query", 3)["topics"].plain()
    hotdog = (order[3:] + order[:3]).index(next(one for one in order if "hotdog" in one.words))
    assert every[hotdog] == ["noun.animal", "noun.food"]


def test_a_folder_without_words_texts_or_any_data_set_is_refused(tmp_path, monkeypatch):
    made(tmp_path / "sift128", 4, 3)
    with pytest.raises(SystemExit, match="neither words nor texts"):
        command(tmp_path / "sift128", monkeypatch)
    with pytest.raises(SystemExit, match="There is no data set"):
        command(tmp_path, monkeypatch)
