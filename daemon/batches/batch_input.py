"""Reads a batch's input file: one request per line, all checked before the first one runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from .batch_record import BatchProblem

MAX_LINES = 50_000
MAX_LINE = 64 * 2**20
MAX_PROBLEMS = 20


class BatchLine(NamedTuple):
    """Position of one request in the file: `length` bytes from `offset` on."""

    offset: int
    length: int
    custom_id: str
    model: str


class RequestLine(msgspec.Struct):
    """One line of an input file."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class _Body(msgspec.Struct):
    """The fields of a request body that are checked before it runs."""

    model: str = ""
    stream: bool | None = None


class BatchInput:
    """The requests of one file; blocking."""

    def __init__(self, path: Path, endpoint: str) -> None:
        self._path = path
        self._endpoint = endpoint
        self._line = msgspec.json.Decoder(RequestLine)
        self._body = msgspec.json.Decoder(_Body)

    def check(self) -> tuple[list[BatchLine], list[BatchProblem]]:
        """Return all lines, grouped by model, and the first problems."""
        lines: list[BatchLine] = []
        problems: list[BatchProblem] = []
        seen: set[str] = set()
        for number, offset, text in self._texts():
            if len(lines) >= MAX_LINES:
                message = f"The file has more than {MAX_LINES} requests."
                problems.append(BatchProblem("too_many_requests", message, None, number))
                break
            line = self._check_line(text, offset, number, seen)
            if isinstance(line, BatchProblem):
                problems.append(line)
                if len(problems) >= MAX_PROBLEMS:
                    break
            else:
                seen.add(line.custom_id)
                lines.append(line)
        if not lines and not problems:
            problems.append(BatchProblem("empty_file", "The file has no requests.", None, None))
        order: dict[str, int] = {}
        for line in lines:
            order.setdefault(line.model, len(order))
        # Alternating between models would load them again and again.
        return sorted(lines, key=lambda line: order[line.model]), problems

    def read(self, line: BatchLine) -> bytes:
        """Return the body of one request, as it was sent."""
        with self._path.open("rb") as file:
            file.seek(line.offset)
            return bytes(self._line.decode(file.read(line.length)).body)

    def _texts(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the non-blank lines with their number and offset."""
        offset = 0
        with self._path.open("rb") as file:
            number = 0
            while text := file.readline(MAX_LINE + 1):
                number += 1
                if text.strip():
                    yield number, offset, text
                offset += len(text)

    def _check_line(
        self, text: bytes, offset: int, number: int, seen: Collection[str]
    ) -> BatchLine | BatchProblem:
        if len(text) > MAX_LINE:
            message = f"The line is longer than {MAX_LINE} bytes."
            return BatchProblem("line_too_long", message, None, number)
        try:
            text.decode()
            line = self._line.decode(text)
            body = self._body.decode(line.body)
        except UnicodeDecodeError:
            return BatchProblem("invalid_json_line", "The line is not UTF-8.", None, number)
        except (msgspec.DecodeError, RecursionError) as error:
            message = f"The line is not a request: {error}."
            return BatchProblem("invalid_json_line", message, None, number)
        problem = self._problem(line, body, seen)
        if problem is not None:
            code, param, message = problem
            return BatchProblem(code, message, param, number)
        return BatchLine(offset, len(text), line.custom_id, body.model)

    def _problem(
        self, line: RequestLine, body: _Body, seen: Collection[str]
    ) -> tuple[str, str, str] | None:
        if not line.custom_id:
            return "missing_custom_id", "custom_id", "'custom_id' is empty."
        if line.custom_id in seen:
            name = line.custom_id[:100]
            return "duplicate_custom_id", "custom_id", f"'{name}' is the 'custom_id' of two lines."
        if line.method.upper() != "POST":
            return "invalid_method", "method", "'method' must be POST."
        if line.url != self._endpoint:
            message = f"'url' must be {self._endpoint}, the endpoint of the batch."
            return "mismatched_url", "url", message
        if body.stream:
            return "invalid_request", "body.stream", "A request in a batch cannot be streamed."
        return None
