"""Find smaller models on this machine that can draft tokens for another.

Their vocabularies must be the same, which are read from the files and compared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from ..errors import InvalidModel, ModelError
from ..gguf.gguf_reader import SCALARS, HeaderReader, ValueType
from ..json_object import read_json_object
from ..metadata.stored_model import StoredModel
from ..model_task import ModelTask
from ..safetensors.folder_files import TOKENIZER

_LARGEST_SHARE = 0.5
_BEST_SHARE = 0.1
"""A draft model of a tenth of the size is cheap, and its drafts are often accepted."""
_TOKEN_BLOCK = 64
_PADDING = 128
"""Makers round vocabularies up, so sizes may differ by tokens that never occur."""
_MOST_TOKENS = 1 << 20
_LONGEST = 1 << 16
_LARGEST_TOKENIZER = 64 << 20
_TOKENS = "tokenizer.ggml.tokens"
_KIND = ("tokenizer.ggml.model", "tokenizer.ggml.pre")
# Begin and end tokens: a draft model that differs there is useless.
_MARKS = ("bos_token_id", "eos_token_id", "add_bos_token")


class DraftFinder:
    """Compares vocabularies, each of which is read once unless its file changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, Vocabulary | None]] = {}

    def find(self, model: StoredModel, others: Iterable[StoredModel]) -> list[StoredModel]:
        """Those of `others` that can draft for `model`, the best first; reads files."""
        if model.task is not ModelTask.GENERATE or not model.parameters:
            return []
        small = [
            other
            for other in others
            if other.task is ModelTask.GENERATE
            and other.path.is_dir() == model.path.is_dir()  # one engine runs both
            and 0 < other.parameters <= _LARGEST_SHARE * model.parameters
        ]
        if not small or (vocabulary := self._vocabulary(model.path)) is None:
            return []
        found = [
            other
            for other in small
            if (its := self._vocabulary(other.path)) is not None and vocabulary.matches(its)
        ]
        return sorted(found, key=lambda other: _distance(model, other))

    def _vocabulary(self, path: Path) -> Vocabulary | None:
        try:
            stamp = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            vocabulary = None
            with suppress(ModelError, ValueError):  # a damaged model cannot draft
                vocabulary = read_vocabulary(path)
            known = self._known[path] = (stamp, vocabulary)
        return known[1]


def _distance(model: StoredModel, draft: StoredModel) -> tuple[float, str]:
    return abs(math.log(draft.parameters / (_BEST_SHARE * model.parameters))), draft.name


class Vocabulary(msgspec.Struct, frozen=True):
    """A vocabulary's size, digests of its whole blocks of 64 tokens, and what else must agree."""

    size: int
    blocks: tuple[bytes, ...]
    marks: tuple[tuple[str, object], ...] = ()

    def matches(self, other: Vocabulary) -> bool:
        """Whether one model could draft tokens for the other; padding tokens do not count."""
        common = min(len(self.blocks), len(other.blocks))
        mine, theirs = dict(self.marks), dict(other.marks)
        return (
            common > 0
            and abs(self.size - other.size) <= _PADDING
            and self.blocks[:common] == other.blocks[:common]
            and all(mine[key] == theirs[key] for key in mine.keys() & theirs.keys())
        )


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a GGUF file or of a folder with a `tokenizer.json`.

    Raises `ModelError` if it has none that can be read.
    """
    try:
        return _of_folder(path) if path.is_dir() else _of_gguf(path)
    except OSError as error:
        raise InvalidModel(f"{path} cannot be read: {error.strerror}.") from error


def _of_gguf(path: Path) -> Vocabulary:
    tokens: list[bytes] = []
    marks: list[tuple[str, object]] = []
    with path.open("rb") as file:
        reader = HeaderReader(file, path, path.stat().st_size)
        for key, kind in reader.metadata():
            name = key.removeprefix("tokenizer.ggml.")
            if key == _TOKENS and kind is ValueType.ARRAY:
                tokens = list(_strings(reader))
            elif key in _KIND and kind is ValueType.STRING:
                marks.append((name, reader.text()))
            elif name in _MARKS and kind in SCALARS:
                marks.append((name, reader.scalar(kind)))
            else:
                reader.skip_value(kind)
    return _vocabulary(path, tokens, marks)


def _strings(reader: HeaderReader) -> Iterator[bytes]:
    kind, count = ValueType(reader.u32()), reader.u64()
    if kind is not ValueType.STRING or count > _MOST_TOKENS:
        reader.fail("has a vocabulary that is no list of texts")
    for _ in range(count):
        length = reader.u64()
        if length > _LONGEST:
            reader.fail(f"has a token of {length} bytes")
        yield reader.take(length)


def _of_folder(path: Path) -> Vocabulary:
    settings = read_json_object(path / TOKENIZER, largest=_LARGEST_TOKENIZER) or {}
    model = settings.get("model")
    listed = cast("dict[str, object]", model).get("vocab") if isinstance(model, dict) else None
    by_id: dict[int, str] = {}
    if isinstance(listed, dict):
        for text, number in cast("dict[str, object]", listed).items():
            if isinstance(number, int):
                by_id[number] = text
    added = settings.get("added_tokens")
    for token in cast("list[object]", added) if isinstance(added, list) else []:
        entry = cast("dict[str, object]", token if isinstance(token, dict) else {})
        number, text = entry.get("id"), entry.get("content")
        if isinstance(number, int) and isinstance(text, str):
            by_id[number] = text
    size = max(by_id, default=-1) + 1
    if size > _MOST_TOKENS:
        raise InvalidModel(f"{path / TOKENIZER} numbers {size} tokens.")
    return _vocabulary(path, [by_id.get(n, "").encode() for n in range(size)], [])


def _vocabulary(path: Path, tokens: list[bytes], marks: list[tuple[str, object]]) -> Vocabulary:
    if not tokens:
        raise InvalidModel(f"{path} has no vocabulary.")
    whole = len(tokens) - len(tokens) % _TOKEN_BLOCK
    blocks = (tokens[at : at + _TOKEN_BLOCK] for at in range(0, whole, _TOKEN_BLOCK))
    digests = tuple(hashlib.blake2b(b"\0".join(block), digest_size=8).digest() for block in blocks)
    return Vocabulary(len(tokens), digests, tuple(sorted(marks, key=lambda mark: mark[0])))
