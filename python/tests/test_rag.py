import decimal
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vstream
from vstream import rag

MODELS = Path(__file__).parents[2] / "crates/embed/tests/fixtures"
SPEECH = (
    "Peace prevails with every nation. Our harvest was good.\n\n"
    "Railroads cross the plains; the telegraph crosses the sea.\n\n"
    "The revenue of the country exceeded its cost."
)


@pytest.fixture(scope="module")
def model():
    return rag.Model.open(MODELS / "words")


def opened(model, **settings):
    return rag.Documents.open(model, size=64, overlap=0, **settings)


def texts_of(documents, document):
    return [one.text for one in documents.get(document)]


def test_a_transformer_gives_what_onnx_runtime_gives():
    model = rag.Model.open(MODELS / "words/transformer")
    assert (model.kind, model.dimension) == ("transformer", 8)
    cases = json.loads((MODELS / "words/expected.json").read_text())
    session = onnxruntime.InferenceSession(str(MODELS / "words/transformer/model.onnx"))
    found = model.embed([case["text"] for case in cases])
    for case, vector in zip(cases, found, strict=True):
        ids = np.array([[2, *case["ids"], 3]], dtype=np.int64)
        ones = np.ones_like(ids)
        inputs = {"input_ids": ids, "attention_mask": ones, "token_type_ids": 0 * ids}
        [last] = session.run(None, inputs)
        mean = last[0].mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_transformer_cuts_what_is_too_long():
    words = "peace " * 100
    short = rag.Model.open(MODELS / "words/transformer", tokens_max=8)
    assert (short.embed([words]) == short.embed([words + " war"])).all()
    with pytest.raises(vstream.InvalidInput, match="tokens"):
        rag.Model.open(MODELS / "words/transformer", tokens_max=2)


def test_what_is_no_model_or_text_is_refused(model, tmp_path):
    with pytest.raises(vstream.StorageError, match=r"no model\.onnx"):
        rag.Model.open(tmp_path)
    for texts in ["one text", ["\ud800"], [7], ["a" * 70_000]]:
        with pytest.raises(vstream.InvalidInput):
            model.embed(texts)
    with pytest.raises(vstream.InvalidInput):
        rag.split("a", size=1)


@given(st.text(max_size=400))
def test_chunks_lie_where_they_say(text):
    for chunk in rag.split(text, size=40, overlap=10):
        part = text[chunk.start : chunk.end]
        assert part
        assert part == part.strip()


def test_a_document_is_replaced_and_only_new_chunks_are_embedded(model):
    documents = opened(model)
    assert documents.upsert("a", SPEECH) == rag.Change(3, 0, 0)
    changed = SPEECH.replace("Railroads", "Canals")
    assert documents.upsert("a", changed) == rag.Change(1, 2, 1)
    assert documents.upsert("a", "War is over. " * 3 + "\n\n" + changed) == rag.Change(1, 3, 0)
    whole = documents.get("a")
    text = "War is over. " * 3 + "\n\n" + changed
    assert all(text[one.start : one.end] == one.text for one in whole)
    assert len(documents.collection) == len(whole) == 4
    assert "Railroads" not in " ".join(texts_of(documents, "a"))
    assert documents.upsert("a", changed) == rag.Change(0, 3, 1)
    assert documents.delete(["a", "b", "a"]) == 1
    assert (len(documents), len(documents.collection)) == (0, 0)


def test_chunks_that_repeat_are_kept_apart(model):
    documents = opened(model)
    line = "Peace prevails with every nation, and our harvest was good."
    assert documents.upsert("a", "\n\n".join([line] * 3)).embedded == 3
    assert [one.text for one in documents.get("a")] == [line] * 3
    assert documents.upsert("a", line) == rag.Change(0, 1, 2)


def test_attributes_follow_their_document(model):
    documents = opened(model, attributes={"year": "i64", "party": "keyword"})
    documents.upsert(["a", "b"], [SPEECH, SPEECH], {"year": [1861, 1862], "party": ["x", "y"]})
    found = documents.search("harvest", 3, where={"year": {"$gt": 1861}})
    assert {one.document for one in found} == {"b"}
    documents.upsert("b", SPEECH, {"year": 1860})
    assert documents.search("harvest", where={"year": {"$gt": 1861}}) == []
    assert documents.get("b")[0].attributes == {"year": 1860}
    with pytest.raises(vstream.InvalidInput, match="taken"):
        documents.upsert("c", SPEECH, {"start": 1})
    with pytest.raises(vstream.InvalidInput):
        documents.upsert("c", SPEECH, {"month": 1})
    assert "c" not in documents


def test_an_answer_quotes_what_it_cites(model):
    documents = opened(model)
    documents.upsert("1861", SPEECH)
    answer = documents.ask("is the harvest good?", k=2, sentences=1)
    texts = [one.text for one in answer.passages]
    at = next(at for at, text in enumerate(texts) if "harvest" in text)
    assert answer.text == f"Our harvest was good. [{at + 1}]"
    assert answer.citations() == [f"[{at + 1}] 1861, 0-{answer.passages[at].end}"]
    assert rag.Documents.open(model).ask("harvest") == rag.DocumentAnswer("", [])
    for question in ["", " \u200b ", "\ud800"]:
        with pytest.raises(vstream.InvalidInput):
            documents.ask(question)


def test_documents_are_there_again_and_whole_after_a_crash(model, tmp_path, monkeypatch):
    place = tmp_path / "documents"
    with opened(model, path=place, attributes={"year": "i64"}) as documents:
        documents.upsert("a", SPEECH, {"year": 1861})
        before = [(one.start, one.text, one.attributes) for one in documents.get("a")]
    documents = opened(model, path=place, attributes={"year": "i64"})
    found = documents.get("a")
    assert [(one.start, one.text, one.attributes) for one in found] == before
    changed = SPEECH.replace("Railroads", "Canals")

    def crash(*_):
        raise KeyboardInterrupt

    # The new chunk is there, and the old one is not gone.
    monkeypatch.setattr(documents.collection, "delete", crash)
    with pytest.raises(KeyboardInterrupt):
        documents.upsert("a", changed, {"year": 1862})
    documents.collection.close()
    with opened(model, path=place, attributes={"year": "i64"}) as documents:
        assert len(documents.collection) == 3
        text = "".join(texts_of(documents, "a"))
        assert "Canals" in text
        assert "Railroads" not in text
        assert documents.get("a")[0].attributes == {"year": 1862}
    other = rag.Model.open(MODELS / "pairs")
    with pytest.raises(vstream.InvalidInput, match="another model"):
        opened(other, path=place, attributes={"year": "i64"})


def test_a_refused_write_leaves_nothing_to_do_again(model, tmp_path):
    documents = opened(model, path=tmp_path / "d", attributes={"year": "i64"})
    with pytest.raises(vstream.InvalidInput):
        documents.upsert("a", SPEECH, {"year": "soon"})
    documents.close()
    with opened(model, path=tmp_path / "d", attributes={"year": "i64"}) as documents:
        assert len(documents) == 0


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_refused_write_that_was_interrupted_holds_up_no_other(
    model, tmp_path, monkeypatch, is_reopened
):
    documents = opened(model, path=tmp_path / "d", attributes={"year": "i64"})

    def interrupt(*_):
        raise KeyboardInterrupt

    # Embedding takes long, and only then it is seen that the attribute cannot be.
    with monkeypatch.context() as patch:
        patch.setattr(documents, "_apply", interrupt)
        with pytest.raises(KeyboardInterrupt):
            documents.upsert("a", SPEECH, {"year": "soon"})
    if is_reopened:
        documents.collection.close()
        documents = opened(model, path=tmp_path / "d", attributes={"year": "i64"})
    with documents:
        documents.upsert("b", SPEECH, {"year": 1861})
        assert [len(documents), documents.get("b")[0].attributes] == [1, {"year": 1861}]
    with opened(model, path=tmp_path / "d", attributes={"year": "i64"}) as documents:
        assert len(documents) == 1


def test_a_write_that_cannot_be_planned_holds_up_no_other(model, tmp_path):
    with opened(model, path=tmp_path / "d", attributes={"tags": "keywords"}) as documents:
        with pytest.raises(vstream.InvalidInput, match="Decimal"):
            documents.upsert("a", SPEECH, {"tags": decimal.Decimal(1)})
        documents.upsert("b", SPEECH, {"tags": {"x", "y"}})
        found = documents.search("harvest", 5, where={"tags": {"$in": ["x"]}})
        assert {one.document for one in found} == {"b"}


CHANGED = SPEECH.replace("Railroads", "Canals")
AGAIN = SPEECH.replace("Railroads", "Rivers")


def interrupted(documents, monkeypatch, call, document, text, *, is_done=True):
    """Write a document, and stop after, or before, the rows of one step of it."""
    real = getattr(documents.collection, call)

    def interrupt(*given):
        if is_done:
            real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(documents.collection, call, interrupt)
        with pytest.raises(KeyboardInterrupt):
            documents.upsert(document, text)


def found_of(documents, document):
    """Return what searches find of a document, in the order of its text."""
    found = documents.search("harvest", 100, where={"document": document})
    return [one.text for one in sorted(found, key=lambda one: one.start)]


def chunks_of(text):
    return [text[one.start : one.end] for one in rag.split(text, 64, 0)]


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("call", ["upsert", "update", "delete"])
def test_a_document_whose_write_was_interrupted_is_deleted_whole(
    model, tmp_path, monkeypatch, call, is_done
):
    """Chunks of the write stayed, as nobody knew of them, and came back as a document."""
    with opened(model, path=tmp_path / "d") as documents:
        documents.upsert("a", SPEECH)
        interrupted(documents, monkeypatch, call, "a", CHANGED, is_done=is_done)
        assert documents.delete("a") == 1
        assert (len(documents), len(documents.collection)) == (0, 0)
        documents.upsert("b", SPEECH)
        assert (list(documents), found_of(documents, "a")) == (["b"], [])
    with opened(model, path=tmp_path / "d") as documents:
        assert list(documents) == ["b"]


@pytest.mark.parametrize("is_done", [False, True])
def test_a_new_document_whose_write_was_interrupted_is_deleted(
    model, tmp_path, monkeypatch, is_done
):
    """It was not known to be there, and so `delete` finished the write."""
    with opened(model, path=tmp_path / "d") as documents:
        interrupted(documents, monkeypatch, "upsert", "a", SPEECH, is_done=is_done)
        assert documents.delete(["a", "unknown"]) == is_done
        assert (len(documents), len(documents.collection)) == (0, 0)
    with opened(model, path=tmp_path / "d") as documents:
        assert len(documents) == 0


@pytest.mark.parametrize("call", ["upsert", "update", "delete"])
def test_a_document_whose_write_was_interrupted_is_replaced_whole(
    model, tmp_path, monkeypatch, call
):
    with opened(model, path=tmp_path / "d") as documents:
        documents.upsert("a", SPEECH)
        interrupted(documents, monkeypatch, call, "a", CHANGED)
        documents.upsert("a", AGAIN)
        assert found_of(documents, "a") == texts_of(documents, "a") == chunks_of(AGAIN)
    with opened(model, path=tmp_path / "d") as documents:
        assert texts_of(documents, "a") == chunks_of(AGAIN)


def test_a_refused_write_does_not_take_the_place_of_an_interrupted_one(
    model, tmp_path, monkeypatch
):
    """Half of the interrupted one was there for ever."""
    with opened(model, path=tmp_path / "d", attributes={"year": "i64"}) as documents:
        documents.upsert("a", SPEECH)
        interrupted(documents, monkeypatch, "upsert", "a", CHANGED)
        for _ in range(2):
            with pytest.raises(vstream.InvalidInput):
                documents.upsert(["b", "a"], [SPEECH, AGAIN], {"year": [1861, "soon"]})
            assert "b" not in documents
        documents.upsert("b", SPEECH)
        assert found_of(documents, "a") == texts_of(documents, "a") == chunks_of(CHANGED)
        interrupted(documents, monkeypatch, "upsert", "a", SPEECH)
        # Another document of the call is refused.
        with pytest.raises(vstream.InvalidInput):
            documents.upsert(["b", "a"], [SPEECH, AGAIN], {"year": ["soon", 1861]})
        assert found_of(documents, "a") == texts_of(documents, "a") == chunks_of(AGAIN)
        interrupted(documents, monkeypatch, "upsert", "a", SPEECH)
        with pytest.raises(vstream.InvalidInput):
            documents.upsert("a", AGAIN, {"year": "soon"})
    with opened(model, path=tmp_path / "d", attributes={"year": "i64"}) as documents:
        assert texts_of(documents, "a") == chunks_of(SPEECH)


def test_a_document_that_can_never_be_written_can_be_deleted(model, tmp_path, monkeypatch):
    with opened(model, path=tmp_path / "d") as documents:
        real = rag.Model.embed

        def embed(self, texts):
            if any("Canals" in text for text in texts):
                raise MemoryError
            return real(self, texts)

        monkeypatch.setattr(rag.Model, "embed", embed)
        documents.upsert("a", SPEECH)
        for _ in range(2):
            with pytest.raises(MemoryError):
                documents.upsert("a", CHANGED)
        assert documents.delete("a") == 1
        documents.upsert("b", SPEECH)
        assert list(documents) == ["b"]


@pytest.mark.parametrize("library", ["arrow", "pandas", "polars", "numpy"])
def test_attributes_and_texts_of_any_library_are_taken_by_position(model, tmp_path, library):
    """A filtered frame of pandas has other labels than 0, 1, 2, and gave the years of others."""
    years, texts = [1861, None, 1863], [SPEECH, CHANGED, AGAIN]
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"text": texts, "year": pd.array(years, "Int64")}, index=[1, 2, 0])
        ids, given, column = pd.Series(list("abc"), index=[2, 1, 0]), frame["text"], frame["year"]
    elif library == "arrow":
        pa = pytest.importorskip("pyarrow")
        ids, given, column = pa.array(list("abc")), pa.chunked_array([texts]), pa.array(years)
    elif library == "polars":
        pl = pytest.importorskip("polars")
        ids, given, column = pl.Series(list("abc")), pl.Series(texts), pl.Series(years)
    else:
        ids, given = np.array(list("abc")), np.array(texts)
        column = np.ma.array([1861, 0, 1863], mask=[False, True, False])
    with opened(model, path=tmp_path / "d", attributes={"year": "i64"}) as documents:
        documents.upsert(ids, given, {"year": column})
        found = [documents.get(one)[0].attributes.get("year") for one in "abc"]
        assert found == years
        assert texts_of(documents, "b") == chunks_of(CHANGED)
        assert documents.delete(ids) == 3


def test_a_frame_of_attributes_and_what_is_none(model):
    pd = pytest.importorskip("pandas")
    documents = opened(model, attributes={"year": "i64"})
    documents.upsert(["a", "b"], [SPEECH] * 2, pd.DataFrame({"year": [1, 2]}, index=[1, 0]))
    assert [documents.get(one)[0].attributes for one in "ab"] == [{"year": 1}, {"year": 2}]
    with pytest.raises(vstream.InvalidInput, match="'start'"):
        documents.upsert(["a"], [SPEECH], pd.DataFrame({"start": [1]}))
    for wrong in ([1], {"year": 1}, {"year": "18"}, {"year": [1, 2, 3]}):
        with pytest.raises(vstream.InvalidInput):
            documents.upsert(["a", "b"], [SPEECH] * 2, wrong)


def test_a_moment_of_numpy_is_the_same_after_a_crash(model, tmp_path, monkeypatch):
    """The plan of a write had nanoseconds, which were read as milliseconds."""
    kinds = {"at": "timestamp"}
    moment = np.datetime64("1861-03-04T12:00:00", "ns")
    documents = opened(model, path=tmp_path / "d", attributes=kinds)

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(documents, "_apply", crash)
    with pytest.raises(KeyboardInterrupt):
        documents.upsert("a", SPEECH, {"at": moment})
    documents.collection.close()
    with opened(model, path=tmp_path / "d", attributes=kinds) as documents:
        found = documents.get("a")[0].attributes["at"]
        assert np.datetime64(found.replace(tzinfo=None)) == moment


@pytest.mark.parametrize(
    "wrong", [{"attributes": {"year": "int"}}, {"attributes": {"year": 5}}, {"memory": 5}]
)
def test_settings_that_are_refused_leave_the_directory_as_it_was(model, tmp_path, wrong):
    """The directory kept them, and could be opened neither with them nor with others."""
    with pytest.raises(vstream.InvalidInput):
        opened(model, path=tmp_path / "d", **wrong)
    with opened(model, path=tmp_path / "d", attributes={"month": "i64"}) as documents:
        documents.upsert("a", SPEECH, {"month": 3})
    with pytest.raises(vstream.InvalidInput, match="another attributes"):
        opened(model, path=tmp_path / "d", **{"attributes": {"year": "int"}, **wrong})
    with opened(model, path=tmp_path / "d", attributes={"month": "i64"}) as documents:
        assert list(documents) == ["a"]


def test_a_search_beside_writers_sees_whole_documents(model):
    documents = opened(model)
    versions = [SPEECH.replace("nation", word) for word in ("nation", "people", "country")]
    versions = [text.replace("cost", str(at)) for at, text in enumerate(versions)]
    whole = [{text[c.start : c.end] for c in rag.split(text, 64, 0)} for text in versions]
    documents.upsert("a", versions[0])
    stop = threading.Event()

    def write():
        at = 0
        while not stop.is_set():
            at += 1
            documents.upsert("a", versions[at % 3])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            found = {one.text for one in documents.search("peace and revenue", 10)}
            assert found in whole
    finally:
        stop.set()
        writer.join()


HEARD = []


class _Said(BaseHTTPRequestHandler):
    said = b""
    status = 200

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        HEARD.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), _Said) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/v1"
        made.shutdown()
        thread.join()


def test_a_language_model_answers_from_the_passages(model, server):
    documents = opened(model)
    documents.upsert("1861", SPEECH)
    said = {"choices": [{"message": {"content": "A good one [1]."}}]}
    _Said.said, _Said.status = json.dumps(said).encode(), 200
    language = rag.LanguageModel(server, "small", key="s3cret")
    answer = documents.ask("how was the harvest?", k=3, language=language)
    assert answer.text == "A good one [1]."
    first = answer.passages[0]
    assert answer.citations() == [f"[1] 1861, {first.start}-{first.end}"]
    path, key, body = HEARD[-1]
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer s3cret", "small")
    assert f"[1] {first.text}" in body["messages"][1]["content"]
    for status, said in [(401, b"s3cret"), (200, b"{}"), (200, b"no json"), (302, b"")]:
        _Said.status, _Said.said = status, said
        with pytest.raises(vstream.Unavailable) as refused:
            documents.ask("how was the harvest?", language=language)
        assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(language)
    for url in ["http://example.org/v1", "ftp://a", "https://a:b@example.org", "https://a?key=b"]:
        with pytest.raises(vstream.InvalidInput):
            rag.LanguageModel(url, "small")
