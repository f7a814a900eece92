"""Result files of a batch: each result is on disk before it counts, so none is repeated."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from ingle.models.failpoints import failpoint

from ..stores.durable_file import storage_error
from .batch_record import BatchUsage


class ResultResponse(msgspec.Struct, frozen=True):
    """The response that the request would have got on its own."""

    status_code: int
    request_id: str
    body: Any


class ResultError(msgspec.Struct, frozen=True):
    """Why a request was not run."""

    code: str
    message: str


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an output or error file."""

    id: str
    custom_id: str
    response: ResultResponse | None = None
    error: ResultError | None = None


class _Known(msgspec.Struct):
    custom_id: str


class _Details(msgspec.Struct):
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class _Usage(msgspec.Struct):
    """The token counts of a chat, a completion or an embedding, or of the Responses API."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Counted(msgspec.Struct):
    usage: _Usage | None = None


class _CountedResponse(msgspec.Struct):
    body: _Counted


class _CountedLine(msgspec.Struct):
    response: _CountedResponse | None = None


class ResultFile:
    """One growing file of results; blocks for moments only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self.done = self._recover()
        """The requests that have a result here."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(path, flags, 0o600)

    def add(self, line: ResultLine) -> None:
        """Append a result, completely or not at all; raises `StorageFull`."""
        data = self._encoder.encode(line) + b"\n"
        size = os.fstat(self._file).st_size
        try:
            failpoint("batch.result")
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, size)
            raise storage_error(error, self.path.parent) from error
        self.done.add(line.custom_id)

    def close(self) -> None:
        """Flush everything to disk."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def usage(self) -> BatchUsage:
        """Return the tokens of all answers in the file."""
        decoder = msgspec.json.Decoder(_CountedLine)
        total = [0, 0, 0, 0]
        with self.path.open("rb") as file:
            for text in file:
                response = decoder.decode(text).response
                if response is None or (usage := response.body.usage) is None:
                    continue
                read = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
                written = usage.completion_tokens_details or usage.output_tokens_details
                total[0] += usage.prompt_tokens or usage.input_tokens
                total[1] += read.cached_tokens
                total[2] += usage.completion_tokens or usage.output_tokens
                total[3] += written.reasoning_tokens if written is not None else 0
        return BatchUsage(
            input_tokens=total[0],
            cached_tokens=total[1],
            output_tokens=total[2],
            reasoning_tokens=total[3],
        )

    def _recover(self) -> set[str]:
        """Read results from before a restart, and cut off an incomplete last line."""
        done: set[str] = set()
        if not self.path.exists():
            return done
        decoder = msgspec.json.Decoder(_Known)
        whole = 0
        with self.path.open("rb+") as file:
            for text in file:
                try:
                    if not text.endswith(b"\n"):
                        break
                    done.add(decoder.decode(text).custom_id)
                except msgspec.DecodeError:
                    break
                whole += len(text)
            file.truncate(whole)
        return done


def new_request_id() -> str:
    """Return a new id for one request of a batch."""
    return f"batch_req_{secrets.token_hex(12)}"
