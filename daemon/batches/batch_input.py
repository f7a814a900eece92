"""Reads a batch's input file: one request per line, all checked before the first one runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from ingle.models.struct_preparation import prepared

from ..http.body_check import without_lone_surrogates
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
        self._line = msgspec.json.Decoder(prepared(RequestLine))
        self._body = msgspec.json.Decoder(prepared(_Body))

    def check(self) -> tuple[list[BatchLine], list[BatchProblem]]:
        """Return all lines, grouped by model, and the first problems."""
        lines: list[BatchLine] = []
        problems: list[BatchProblem] = []
        seen: set[str] = set()
        for number, offset, text in self._texts():
            if len(lines) >= MAX_LINES:
                message = f"The file has more than {MAX_LINES} requests."
                problems.append(BatchProblem("too_many_requests", message, line=number))
                break
            line = self._check_line(text, offset, number, seen)
            if isinstance(line, BatchProblem):
                problems.append(line)
                if len(problems) >= MAX_PROBLEMS or len(text) > MAX_LINE:
                    break  # the rest of a long line is no line
            else:
                seen.add(line.custom_id)
                lines.append(line)
        if not lines and not problems:
            problems.append(BatchProblem("empty_file", "The file has no requests."))
        order = {model: n for n, model in enumerate(dict.fromkeys(line.model for line in lines))}
        # Alternating between models would load them again and again.
        return sorted(lines, key=lambda line: order[line.model]), problems

    def read(self, line: BatchLine) -> bytes:
        """Return the body of one request, as it was sent."""
        with self._path.open("rb") as file:
            file.seek(line.offset)
            text = without_lone_surrogates(file.read(line.length))
        return bytes(self._line.decode(text).body)

    def _texts(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the non-blank lines with their number and offset."""
        offset = 0
        with self._path.open("rb") as file:
            for number, text in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
                if text.strip():
                    yield number, offset, text
                offset += len(text)

    def _check_line(
        self, text: bytes, offset: int, number: int, seen: Collection[str]
    ) -> BatchLine | BatchProblem:
        problem = partial(BatchProblem, line=number)
        if len(text) > MAX_LINE:
            return problem("line_too_long", f"The line is longer than {MAX_LINE} bytes.")
        try:
            text.decode()
            line = self._line.decode(without_lone_surrogates(text))
            body = self._body.decode(line.body)
        except UnicodeDecodeError:
            return problem("invalid_json_line", "The line is not UTF-8.")
        except (msgspec.DecodeError, RecursionError) as error:
            return problem("invalid_json_line", f"The line is not a request: {error}.")
        if not line.custom_id:
            return problem("missing_custom_id", "'custom_id' is empty.", "custom_id")
        if line.custom_id in seen:
            message = f"'{line.custom_id[:100]}' is the 'custom_id' of two lines."
            return problem("duplicate_custom_id", message, "custom_id")
        if line.method.upper() != "POST":
            return problem("invalid_method", "'method' must be POST.", "method")
        if line.url != self._endpoint:
            message = f"'url' must be {self._endpoint}, the endpoint of the batch."
            return problem("mismatched_url", message, "url")
        if body.stream:
            message = "A request in a batch cannot be streamed."
            return problem("invalid_request", message, "body.stream")
        return BatchLine(offset, len(text), line.custom_id, body.model)
