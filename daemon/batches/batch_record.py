"""The persistent record of a batch, from which it resumes after a restart."""

from __future__ import annotations

import re
import secrets
import threading
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from ingle.models.struct_preparation import prepared

from ..errors import NotFound
from ..stores.durable_file import write_durably

_ID = re.compile(r"(?:msg)?batch_[0-9a-f]{24}")

BatchKind = Literal["batch", "msgbatch"]
"""The prefix of an id: of OpenAI's batches, and of Anthropic's."""


class BatchStatus(StrEnum):
    """The status of a batch, in OpenAI's terms."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self in (
            BatchStatus.FAILED,
            BatchStatus.COMPLETED,
            BatchStatus.EXPIRED,
            BatchStatus.CANCELLED,
        )


class BatchProblem(msgspec.Struct, frozen=True):
    """Why an input file cannot be used; `line` counts from 1."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class BatchUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all answers."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class BatchFacts(msgspec.Struct, kw_only=True):
    """The facts of a batch that clients see as they are stored; times are Unix seconds."""

    id: str
    endpoint: str
    model: str | None = None
    input_file_id: str
    completion_window: str
    status: BatchStatus = BatchStatus.VALIDATING
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    metadata: dict[str, str] | None = None


class BatchRecord(BatchFacts, kw_only=True):
    """One batch; `output_id` and `error_id` are the ids that its result files will have."""

    output_id: str
    error_id: str
    output_lifetime: int
    problems: list[BatchProblem] = []
    total: int = 0
    completed: int = 0
    failed: int = 0
    expired: int = 0
    """Of the failed requests, those that were not run in time."""

    usage: BatchUsage | None = None

    @property
    def kind(self) -> BatchKind:
        """The API that it belongs to."""
        return "msgbatch" if self.id.startswith("msgbatch_") else "batch"

    @property
    def ended_at(self) -> int | None:
        """When it has ended; None before."""
        ends = (self.completed_at, self.failed_at, self.expired_at, self.cancelled_at)
        return max(at or 0 for at in ends) if self.status.ended else None

    @property
    def file_ids(self) -> frozenset[str]:
        """The files that it reads, and that it has left."""
        found = (self.input_file_id, self.output_file_id, self.error_file_id)
        return frozenset(file_id for file_id in found if file_id is not None)


class BatchStore:
    """A folder of records, and of the results of running batches; blocking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saving = threading.Lock()

    def new_id(self, kind: BatchKind) -> str:
        """Return an unused id."""
        return f"{kind}_{secrets.token_hex(12)}"

    def save(self, record: BatchRecord) -> None:
        """Write the record; raises `StorageFull`."""
        # One lock for read and write, so that no thread overwrites a newer state with an older one.
        with self._saving:
            write_durably(self._folder / f"{record.id}.json", msgspec.json.encode(record))

    def get(self, batch_id: str) -> BatchRecord:
        """Return one record; raises `NotFound`."""
        record = self._read(batch_id) if _ID.fullmatch(batch_id) else None
        if record is None:
            raise NotFound(
                f"There is no batch '{batch_id[:100]}'.",
                hint="The list of batches has all.",
                param="batch_id",
            )
        return record

    def list(self) -> list[BatchRecord]:
        """Return all records, the newest first."""
        found = [self._read(path.stem) for path in self._folder.glob("*batch_*.json")]
        records = [record for record in found if record is not None]
        return sorted(records, key=lambda record: (-record.created_at, record.id))

    def delete(self, batch_id: str) -> None:
        """Remove a record, and results that are no files yet."""
        with self._saving:
            for path in self._folder.glob(f"{batch_id}.*.jsonl"):
                path.unlink(missing_ok=True)
            (self._folder / f"{batch_id}.json").unlink(missing_ok=True)

    def results(self, record: BatchRecord, kind: str) -> Path:
        """Return the path where results are collected until the batch ends; `kind` is output or
        errors.
        """
        return self._folder / f"{record.id}.{kind}.jsonl"

    def _read(self, batch_id: str) -> BatchRecord | None:
        try:
            content = (self._folder / f"{batch_id}.json").read_bytes()
            return msgspec.json.decode(content, type=prepared(BatchRecord))
        except (OSError, msgspec.DecodeError):
            return None
