"""Damaged headers through a real daemon: a sentence each, and the next good request is served."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.models.errors import ModelError
from ingle.models.gguf.gguf_header import read_header

if TYPE_CHECKING:
    from .conftest import Edit, ReadFields, StrangersDaemon

Damaged = Iterable[tuple[str, "list[Edit]"]]


class Target:
    """A file that is damaged in its place, and good again afterwards; each time by another name."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content
        self._number = 0
        path.write_bytes(content)

    @contextmanager
    def damaged(self, edits: Iterable[Edit]) -> Generator[Path]:
        self._number += 1
        name = self._path.with_name(f"{self._path.stem}-{self._number}.gguf")
        name.hardlink_to(self._path)  # a model that fails too often is not started again
        edits = list(edits)
        self._write((edit.offset, edit.content) for edit in edits)
        try:
            yield name
        finally:
            name.unlink()
            self._write((e.offset, self._content[e.offset :][: len(e.content)]) for e in edits)

    def _write(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        with self._path.open("r+b") as file:
            for offset, content in pieces:
                file.seek(offset)
                file.write(content)


def try_all(
    daemon: StrangersDaemon, target: Target, good: Path, damaged: Damaged, to_engines: int
) -> dict[str, int]:
    """Counts of how they ended; at most `to_engines` of those that look well go to a worker."""
    ends = {"refused": 0, "failed": 0, "works": 0, "died": 0, "not tried": 0}
    for label, edits in damaged:
        with target.damaged(edits) as path:
            looks_well = _looks_well(path)
            if looks_well and ends["works"] + ends["failed"] + ends["died"] >= to_engines:
                ends["not tried"] += 1
                continue
            answer = daemon.ask(path)
            if answer.status == 200:
                ends["works"] += 1
                daemon.unload(path)
            else:
                answer.assert_typed()
                killed = "was killed by" in answer.message
                if killed:  # a sentence, too, but one that wants a rule of its own
                    print("a worker died of", label, edits, answer.message)
                ends["died" if killed else "failed" if looks_well else "refused"] += 1
            assert answer.seconds < 5 * _crowd(), (label, edits, answer)
        if looks_well:
            assert daemon.ask(good).status == 200, label
    daemon.assert_lives()
    assert daemon.ask(good).status == 200
    return ends


def _crowd() -> float:
    """How many times as long as at rest things may take: what else the machine does."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _looks_well(path: Path) -> bool:
    try:
        read_header(path)
    except ModelError:
        return False
    return True


@pytest.fixture
def small(tmp_path: Path, write_small_llama: Callable[..., Path]) -> Path:
    """The good file beside the damaged ones."""
    return write_small_llama(tmp_path / "good.gguf")


@pytest.mark.slow
def test_three_hundred_damaged_headers(
    strangers: Any, small: Path, tmp_path: Path, header_fields: ReadFields
) -> None:
    content = small.read_bytes()
    fields = header_fields(content)
    target = Target(tmp_path / "bad.gguf", content)
    ends = try_all(strangers, target, small, fields.mutations(300, seed=1), to_engines=4)
    assert ends["refused"] > 200
    assert ends["failed"] + ends["works"] == 4
    assert ends["died"] == 0


def test_a_vocabulary_without_a_byte_is_refused(
    strangers: Any, small: Path, tmp_path: Path
) -> None:
    """A text with that byte ended llama.cpp (`unordered_map::at`); found by the mutations below."""
    content = small.read_bytes()
    assert content.count(b"<0x4B>") == 1
    path = tmp_path / "bad.gguf"
    path.write_bytes(content.replace(b"<0x4B>", b"<0x4K>"))
    answer = strangers.ask(path, prompt="King")
    answer.assert_typed()
    assert "byte 0x4B" in answer.message
    assert strangers.ask(small, prompt="King").status == 200


def test_a_token_that_stands_twice_is_refused(strangers: Any, small: Path, tmp_path: Path) -> None:
    """llama.cpp aborts over two tokens with one text; found by the mutations below."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(small.read_bytes().replace(b"<0x4B>", b"<0x4C>"))
    answer = strangers.ask(path)
    answer.assert_typed()
    assert "the token '<0x4C>' twice" in answer.message


@pytest.mark.slow
def test_ten_thousand_damaged_headers(
    strangers: Any, small: Path, tmp_path: Path, header_fields: ReadFields
) -> None:
    content = small.read_bytes()
    fields = header_fields(content)
    target = Target(tmp_path / "bad.gguf", content)
    damaged = fields.mutations(10_000, seed=2)
    ends = try_all(strangers, target, small, damaged, to_engines=10_000)
    print(ends)
    assert sum(ends.values()) == 10_000
    assert ends["not tried"] == 0


@pytest.mark.slow
@pytest.mark.model
def test_single_fields_of_a_real_model(
    strangers: Any, smollm2_path: Path, tmp_path: Path, header_fields: ReadFields
) -> None:
    """Every number of the header that is not a tensor's, each with one edge value or two."""
    content = smollm2_path.read_bytes()
    fields = header_fields(content)
    source = random.Random(3)
    damaged: list[tuple[str, list[Edit]]] = []
    for field in fields.fields:
        edits = fields.edits(field, source)
        if field.kind is not None and "blk." not in field.label and edits:
            chosen = source.sample(edits, min(2, len(edits)))
            damaged += [(f"{field.label} {edit.content.hex()}", [edit]) for edit in chosen]
    assert len(damaged) > 90
    target = Target(tmp_path / "bad.gguf", content)
    ends = try_all(strangers, target, smollm2_path, damaged, to_engines=len(damaged))
    print(ends)
    assert ends["not tried"] == 0
