"""A real daemon for hostile model files, and mutations of GGUF headers."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

ANSWERED_WITHIN = 5.0
"""Seconds within which every hostile file must be answered, on an idle machine."""

_FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "B",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9


@dataclass(frozen=True)
class Answer:
    """The response to one request."""

    status: int
    body: dict[str, Any]
    seconds: float

    @property
    def message(self) -> str:
        return self.body["error"]["message"]

    def assert_typed(self) -> None:
        """An error response with a sentence, without a traceback or a crash of the daemon."""
        assert 400 <= self.status < 600, self
        error = self.body["error"]
        assert error["message"].endswith((".", "'", '"', ")", "…")), self
        assert "Traceback" not in error["message"], self
        assert error.get("code") or error.get("type"), self


class TargetDaemon:
    """`ingle serve` on a separate home, with a client of its socket."""

    def __init__(self, home: Path) -> None:
        self.log = home.parent / "daemon.log"
        clean = {name: text for name, text in os.environ.items() if not name.startswith("INGLE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ingle.daemon.main", "serve", "--port", "-1"],
                cwd="/",
                env={**clean, "INGLE_HOME": str(home), "INGLE_IMPORT_MODELS": "false"},
                stderr=log,
            )
        path = home / "runtime" / "ingle.sock"
        deadline = time.monotonic() + 120
        while not _listens(path):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        transport = httpx.HTTPTransport(uds=str(path))
        self.http = httpx.Client(base_url="http://ingle", transport=transport, timeout=120)

    def ask(self, model: Path | str, **body: object) -> Answer:
        """Request a short completion."""
        request = {"model": str(model), "prompt": "One, two", "max_tokens": 4, "temperature": 0}
        return self.post("/v1/completions", {**request, **body})

    def post(self, path: str, body: object) -> Answer:
        began = time.monotonic()
        response = self.http.post(path, json=body)
        return Answer(response.status_code, response.json(), time.monotonic() - began)

    def unload(self, model: Path) -> None:
        """Unload the model's worker."""
        self.http.post("/ingle/v1/unload", json={"model": str(model)}).raise_for_status()

    def assert_lives(self) -> None:
        """The daemon still runs and answers."""
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        health = self.http.get("/health")
        assert health.status_code == 200

    def stop(self) -> None:
        self.http.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=120)
        finally:
            self.process.kill()
            self.process.wait()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
        probe.connect(str(path))
        return True
    return False


@pytest.fixture(scope="module")
def target_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetDaemon]:
    """One daemon for all tests of a file; none of them may crash it."""
    if sys.platform == "win32":
        pytest.skip("needs a unix socket")
    daemon = TargetDaemon(tmp_path_factory.mktemp("target") / "home")
    pid = daemon.process.pid
    yield daemon
    daemon.assert_lives()
    assert daemon.process.pid == pid
    daemon.stop()


@dataclass(frozen=True)
class Field:
    """One field of a GGUF header: `kind` None is text or a magic number, byte for byte."""

    label: str
    offset: int
    size: int
    kind: int | None


@dataclass(frozen=True)
class Edit:
    """A replacement of bytes in a file."""

    offset: int
    content: bytes


class HeaderFields:
    """The position of every field of a GGUF header, by an independent minimal reader."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.fields: list[Field] = [Field("magic", 0, 4, None)]
        self._at = 4
        self._number("version", 4)
        tensors, keys = self._number("tensors", 10), self._number("keys", 10)
        for _ in range(keys):
            self._pair()
        for _ in range(tensors):
            self._tensor()
        self.end = self._at

    def _number(self, label: str, kind: int) -> int:
        layout = "<" + _FORMATS[kind]
        self.fields.append(Field(label, self._at, struct.calcsize(layout), kind))
        (value,) = struct.unpack_from(layout, self.content, self._at)
        self._at += struct.calcsize(layout)
        return value

    def _text(self, label: str) -> str:
        length = self._number(f"{label} length", 10)
        self.fields.append(Field(label, self._at, length, None))
        text = self.content[self._at : self._at + length]
        self._at += length
        return text.decode("utf-8", "replace")

    def _pair(self) -> None:
        key = self._text("a key")
        kind = self._number(f"{key} type", 4)
        if kind == _TEXT:
            self._text(key)
        elif kind == _ARRAY:
            element, count = self._number(f"{key} element", 4), self._number(f"{key} count", 10)
            self._array(key, element, count)
        else:
            self._number(key, kind)

    def _array(self, key: str, element: int, count: int) -> None:
        """Only up to four of its elements become fields."""
        marked = {0, 1, count // 2, count - 1}
        for index in range(count):
            before = len(self.fields)
            if element == _TEXT:
                self._text(f"{key}[{index}]")
            else:
                self._number(f"{key}[{index}]", element)
            if index not in marked:
                del self.fields[before:]

    def _tensor(self) -> None:
        name = self._text("a tensor's name")
        dimensions = self._number(f"{name} dimensions", 4)
        for index in range(dimensions):
            self._number(f"{name} dimension {index}", 10)
        self._number(f"{name} type", 4)
        self._number(f"{name} offset", 10)

    def edits(self, field: Field, source: random.Random) -> list[Edit]:
        """Edge values of a number, or a flipped bit in a text."""
        old = self.content[field.offset : field.offset + field.size]
        if field.kind is None:
            if not old:
                return []
            place = source.randrange(len(old))
            return [Edit(field.offset + place, bytes([old[place] ^ 1 << source.randrange(8)]))]
        layout = "<" + _FORMATS[field.kind]
        (now,) = struct.unpack(layout, old)
        values = _edge_values(now, layout, source)
        packed = {struct.pack(layout, value) for value in values} - {old}
        return [Edit(field.offset, content) for content in sorted(packed)]

    def mutations(self, count: int, seed: int) -> Iterator[tuple[str, list[Edit]]]:
        """`count` damaged headers: one to four fields, or some random bytes."""
        source = random.Random(seed)
        for number in range(count):
            if number % 5 == 4:
                places = [source.randrange(self.end) for _ in range(source.choice((1, 3, 16)))]
                edits = [Edit(place, source.randbytes(1)) for place in places]
                yield f"{seed}.{number} bytes", edits
                continue
            chosen = source.choices(self.fields, k=source.choice((1, 1, 1, 2, 4)))
            options = [(field.label, self.edits(field, source)) for field in chosen]
            yield (
                f"{seed}.{number} " + ", ".join(label for label, _ in options),
                [source.choice(edits) for _, edits in options if edits],
            )


def _edge_values(now: float, layout: str, source: random.Random) -> Sequence[float]:
    if layout[1] in "fd":
        return (0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e30, -now, now * 2)
    size, signed = struct.calcsize(layout), layout[1].islower()
    top = (1 << (8 * size - signed)) - 1
    low = -(1 << (8 * size - 1)) if signed else 0
    whole = int(now)
    near = (0, 1, 2, 3, 7, 255, 65536, whole + 1, whole - 1, whole * 2, whole // 2, whole * 64)
    values = (*near, top, top // 2, top // 2 + 1, source.randrange(top))
    return [value for value in values if low <= value <= top]


ReadFields = Callable[[bytes], HeaderFields]


@pytest.fixture
def header_fields() -> ReadFields:
    """Finds the fields of a header."""
    return HeaderFields


@pytest.fixture
def answered_within() -> float:
    """The time limit for one hostile file, in seconds."""
    return ANSWERED_WITHIN
