"""Compare the vocabularies of two models, read from their files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..errors import InvalidModel
from ..gguf.gguf_reader import HeaderReader, ValueType
from ..json_object import read_json_object
from ..safetensors.folder_files import TOKENIZER

_BLOCK = 64
_PADDING = 128
"""Makers round vocabularies up, so sizes may differ by tokens that never occur."""
_MOST_TOKENS = 1 << 20
_LONGEST = 1 << 16
_LARGEST_TOKENIZER = 64 << 20
_TOKENS = "tokenizer.ggml.tokens"
_KIND = ("tokenizer.ggml.model", "tokenizer.ggml.pre")
# Begin and end tokens: a draft model that differs there is useless.
_MARKS = ("bos_token_id", "eos_token_id", "add_bos_token")


@dataclass(frozen=True, slots=True)
class Vocabulary:
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
        reader.take(16)  # magic, version and number of tensors, which `read_header` checks
        for _ in range(min(reader.u64(), _LONGEST)):
            key, kind = reader.key("metadata key"), ValueType(reader.u32())
            name = key.removeprefix("tokenizer.ggml.")
            if key == _TOKENS and kind is ValueType.ARRAY:
                tokens = list(_strings(reader))
            elif kind is ValueType.ARRAY:
                element = ValueType(reader.u32())
                reader.skip_array(element, reader.u64())
            elif kind is ValueType.STRING:
                text = reader.text()
                if key in _KIND:
                    marks.append((name, text))
            else:
                value = reader.scalar(kind)
                if name in _MARKS:
                    marks.append((name, value))
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
    whole = len(tokens) - len(tokens) % _BLOCK
    blocks = (tokens[at : at + _BLOCK] for at in range(0, whole, _BLOCK))
    digests = tuple(hashlib.blake2b(b"\0".join(block), digest_size=8).digest() for block in blocks)
    return Vocabulary(len(tokens), digests, tuple(sorted(marks, key=lambda mark: mark[0])))
