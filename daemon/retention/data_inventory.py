"""Table of all stored data: its location, its retention period and what erases it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from ..settings.config import Config
from ..settings.paths import Paths
from ..stores.log_files import KEPT, LARGEST
from .stored_files import StoredItem, things_in

KEEP_DOCUMENTS = 30 * 86400.0
"""Seconds that the index of a folder is kept after its last search."""

Extent = Literal["id", "time", "all"]
"""How a store can be erased: by id, by time, or only as a whole."""


class DataStore(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of stored data; `words` says whether it holds text that people wrote or read.

    `path` is a file, or a folder whose files match `pattern`; `files` returns others instead.
    `other` says how to remove what `ingle forget` never erases.
    """

    name: str
    what: str
    path: Callable[[Paths], Path]
    pattern: str = "*"
    files: Callable[[Paths], Iterable[Path]] | None = None
    kept_for: Callable[[Config], str] = lambda config: "until removed"
    erased_by: tuple[Extent, ...] = ()
    words: bool = False
    other: str = ""

    def things(self, paths: Paths) -> list[StoredItem]:
        """Return its items at present; blocking."""
        path = self.path(paths)
        if self.files is not None:
            files = self.files(paths)
        else:
            files = path.glob(self.pattern) if path.is_dir() else [path]
        return list(things_in(file for file in files if file.is_file()))


class StoredData(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a store: `count` items of `bytes` in total, and their retention."""

    name: str
    what: str
    path: str
    count: int
    bytes: int
    kept_for: str
    words: bool
    erased_by: list[Extent]
    other: str = ""


def duration(seconds: float) -> str:
    """Format a retention period: "30 days", "6 hours", "until erased"."""
    if seconds < 0:
        return "until erased"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{seconds:g} seconds"


def measure(place: DataStore, config: Config) -> StoredData:
    """Measure a store now; blocking."""
    things = place.things(config.paths)
    return StoredData(
        name=place.name,
        what=place.what,
        path=str(place.path(config.paths)),
        count=len(things),
        bytes=sum(thing.size for thing in things),
        kept_for=place.kept_for(config),
        words=place.words,
        erased_by=list(place.erased_by),
        other=place.other,
    )


DATA_INVENTORY: tuple[DataStore, ...] = (
    DataStore(
        name="chats",
        what="chats of the terminal: messages, drafts, prompts, their search index",
        path=lambda paths: paths.chats,
        pattern="history*",
        kept_for=lambda config: duration(config.keep_chats),
        erased_by=("id", "time", "all"),
        words=True,
    ),
    DataStore(
        name="responses",
        what="stored answers of /v1/responses and chat completions, and conversations",
        path=lambda paths: paths.responses,
        kept_for=lambda config: f"{duration(config.keep_responses)} since used, 512 MiB at most",
        erased_by=("id", "time", "all"),
        words=True,
    ),
    DataStore(
        name="files",
        what="files that clients uploaded, and results of batches",
        path=lambda paths: paths.files,
        kept_for=lambda config: "until deleted, or as long as its client said",
        erased_by=("id", "time", "all"),
        words=True,
    ),
    DataStore(
        name="batches",
        what="batches: their state, and results not collected yet",
        path=lambda paths: paths.batches,
        kept_for=lambda config: f"{duration(config.keep_batches)} after their end",
        erased_by=("id", "time", "all"),
        words=True,
    ),
    DataStore(
        name="kv",
        what="stored KV caches, from which conversations resume; beginnings of agents' prompts",
        path=lambda paths: paths.kv,
        pattern="*/*",
        kept_for=lambda config: f"{duration(config.keep_kv)} since used, {_size(config.kv_disk)}",
        erased_by=("time", "all"),
        words=True,
    ),
    DataStore(
        name="documents",
        what="indexes of folders that were asked about: passages, words and vectors",
        path=lambda paths: paths.documents,
        kept_for=lambda config: f"{duration(KEEP_DOCUMENTS)} since asked about",
        erased_by=("time", "all"),
        words=True,
    ),
    DataStore(
        name="edits",
        what="copies of files that tools have edited, from which an edit is undone",
        path=lambda paths: paths.state / "edits",
        kept_for=lambda config: "30 days, removed at a later edit",
        erased_by=("time", "all"),
        words=True,
    ),
    DataStore(
        name="marks",
        what="digests of conversations that hold something sensitive, so that they stay here",
        path=lambda paths: paths.state / "routing",
        kept_for=lambda config: "180 days, 100,000 at most",
        erased_by=("all",),
    ),
    DataStore(
        name="logs",
        what="the daemon's log: ids, sizes, times; no text of chats",
        path=lambda paths: paths.log,
        files=lambda paths: paths.log.parent.glob(f"{paths.log.stem}*.log*"),
        kept_for=lambda config: f"{KEPT + 1} files of {LARGEST // 2**20} MiB",
        erased_by=("all",),
    ),
    DataStore(
        name="benches",
        what="the last `ingle bench` results",
        path=lambda paths: paths.benches,
        kept_for=lambda config: "until measured again",
        erased_by=("time", "all"),
    ),
    DataStore(
        name="machine",
        what="facts about this machine that are slow to determine",
        path=lambda paths: paths.machine_facts,
        kept_for=lambda config: "until determined again",
        erased_by=("all",),
    ),
    DataStore(
        name="keys",
        what="digests of API keys, and when each was last used",
        path=lambda paths: paths.keys,
        files=lambda paths: paths.keys.parent.glob("keys*.json"),
        kept_for=lambda config: "until revoked",
        other="`ingle key revoke` removes one.",
    ),
    DataStore(
        name="provider keys",
        what="keys of providers, or that they are in the system's keyring",
        path=lambda paths: paths.state / "provider-keys.json",
        other="`ingle provider key NAME --remove` removes one.",
    ),
    DataStore(
        name="ledger",
        what="what left this machine: sizes, kinds and costs, no text",
        path=lambda paths: paths.ledger,
        files=lambda paths: (*paths.ledger.glob("*"), paths.ledger_head),
        other="`ingle ledger forget --before 2026-01` erases older months.",
    ),
    DataStore(
        name="connections",
        what="settings written into other programs, and their previous values",
        path=lambda paths: paths.connections,
        other="`ingle connect CLIENT --remove` restores the previous values.",
    ),
    DataStore(
        name="settings",
        what="your own settings, keys of the chat, and prompt templates",
        path=lambda paths: paths.config,
        pattern="**/*",
        other="They are yours: edit or remove the files.",
    ),
    DataStore(
        name="models",
        what="models",
        path=lambda paths: paths.models,
        pattern="**/*",
        other="`ingle rm MODEL` removes one.",
    ),
)


def _size(count: int) -> str:
    return f"{count / 2**30:.3g} GiB at most" if count else "nothing is written"
