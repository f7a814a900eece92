"""Fuzz tests of GGUF headers through a real daemon: errors, and the next valid request succeeds."""

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
    from .conftest import Edit, ReadFields, TargetDaemon

Damaged = Iterable[tuple[str, "list[Edit]"]]


class DamagedFile:
    """A file that is damaged in place and restored, with another name each time."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content
        self._number = 0
        path.write_bytes(content)

    @contextmanager
    def damaged(self, edits: Iterable[Edit]) -> Generator[Path]:
        self._number += 1
        name = self._path.with_name(f"{self._path.stem}-{self._number}.gguf")
        name.hardlink_to(self._path)  # since a model that fails repeatedly is quarantined
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


def run_all(
    daemon: TargetDaemon, target: DamagedFile, good: Path, damaged: Damaged, to_engines: int
) -> dict[str, int]:
    """Counts of the outcomes; at most `to_engines` files with valid headers go to a worker."""
    outcomes = {"refused": 0, "failed": 0, "works": 0, "died": 0, "not tried": 0}
    for label, edits in damaged:
        with target.damaged(edits) as path:
            has_valid_header = _has_valid_header(path)
            if (
                has_valid_header
                and outcomes["works"] + outcomes["failed"] + outcomes["died"] >= to_engines
            ):
                outcomes["not tried"] += 1
                continue
            answer = daemon.ask(path)
            if answer.status == 200:
                outcomes["works"] += 1
                daemon.unload(path)
            else:
                answer.assert_typed()
                killed = "was killed by" in answer.message
                if killed:  # an error sentence as well, but the reader should have refused the file
                    print("a worker died of", label, edits, answer.message)
                outcomes["died" if killed else "failed" if has_valid_header else "refused"] += 1
            assert answer.seconds < 5 * _load_factor(), (label, edits, answer)
        if has_valid_header:
            assert daemon.ask(good).status == 200, label
    daemon.assert_lives()
    assert daemon.ask(good).status == 200
    return outcomes


def _load_factor() -> float:
    """A factor for time limits on a loaded machine; 1 on an idle one."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _has_valid_header(path: Path) -> bool:
    try:
        read_header(path)
    except ModelError:
        return False
    return True


@pytest.fixture
def small(tmp_path: Path, write_small_llama: Callable[..., Path]) -> Path:
    """The valid file that is requested between the damaged ones."""
    return write_small_llama(tmp_path / "good.gguf")


@pytest.mark.slow
def test_300_damaged_headers(
    target_daemon: Any,
    small: Path,
    tmp_path: Path,
    header_fields: ReadFields,
    tries: Callable[[int], None],
) -> None:
    content = small.read_bytes()
    fields = header_fields(content)
    target = DamagedFile(tmp_path / "bad.gguf", content)
    outcomes = run_all(target_daemon, target, small, fields.mutations(300, seed=1), to_engines=4)
    assert outcomes["refused"] > 200
    assert outcomes["failed"] + outcomes["works"] == 4
    assert outcomes["died"] == 0
    tries(300)


def test_vocabulary_without_a_byte_token_is_refused(
    target_daemon: Any, small: Path, tmp_path: Path
) -> None:
    """Text with that byte crashed llama.cpp (`unordered_map::at`); found by the mutations below."""
    content = small.read_bytes()
    assert content.count(b"<0x4B>") == 1
    path = tmp_path / "bad.gguf"
    path.write_bytes(content.replace(b"<0x4B>", b"<0x4K>"))
    answer = target_daemon.ask(path, prompt="King")
    answer.assert_typed()
    assert "byte 0x4B" in answer.message
    assert target_daemon.ask(small, prompt="King").status == 200


def test_duplicate_token_is_refused(target_daemon: Any, small: Path, tmp_path: Path) -> None:
    """llama.cpp aborts on duplicate token texts; found by the mutations below."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(small.read_bytes().replace(b"<0x4B>", b"<0x4C>"))
    answer = target_daemon.ask(path)
    answer.assert_typed()
    assert "the token '<0x4C>' twice" in answer.message


@pytest.mark.slow
def test_10000_damaged_headers(
    target_daemon: Any,
    small: Path,
    tmp_path: Path,
    header_fields: ReadFields,
    tries: Callable[[int], None],
) -> None:
    content = small.read_bytes()
    fields = header_fields(content)
    target = DamagedFile(tmp_path / "bad.gguf", content)
    damaged = fields.mutations(10_000, seed=2)
    outcomes = run_all(target_daemon, target, small, damaged, to_engines=10_000)
    print(outcomes)
    assert sum(outcomes.values()) == 10_000
    assert outcomes["not tried"] == 0
    tries(10_000)


@pytest.mark.slow
@pytest.mark.model
def test_damaged_fields_of_a_real_model(
    target_daemon: Any,
    smollm2_path: Path,
    tmp_path: Path,
    header_fields: ReadFields,
    tries: Callable[[int], None],
) -> None:
    """Every number of the header outside the tensors, each with one or two edge values."""
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
    target = DamagedFile(tmp_path / "bad.gguf", content)
    outcomes = run_all(target_daemon, target, smollm2_path, damaged, to_engines=len(damaged))
    print(outcomes)
    assert outcomes["not tried"] == 0
    tries(len(damaged))
