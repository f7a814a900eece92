"""The prompts of the slots that llama-server's clients number, and those that they save."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.backends.base.own_folder import make_own_folder
from ingle.backends.base.requests import GenerateRequest, shows_pictures

from ..stores.atomic_file import write_atomically
from ..stores.durable_file import writing_in

KEPT = 64
"""Saved prompts of one model; the oldest ones are removed."""
_NOTED = 256
"""Slots of all models and keys whose latest prompt is remembered."""

_Slot = tuple[str, str, int]


class SavedPrompt(msgspec.Struct, frozen=True):
    """A saved prompt; its keys and values are stored by its tokens."""

    name: str
    token_ids: list[int]


class SlotPrompts:
    """Remembers the latest prompt of each slot, and keeps saved ones in a folder.

    The folder is that of the known prefixes: what erases stored KV erases saved prompts, too.
    Slots and saved prompts belong to the API key that made them (empty without keys).
    """

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder
        self._latest: OrderedDict[_Slot, GenerateRequest] = OrderedDict()

    def note(self, key: str, model: str, number: int, request: GenerateRequest) -> None:
        """Remember the prompt of a slot, unless it is private or has pictures."""
        slot = (key, model, number)
        self._latest.pop(slot, None)
        if number >= 0 and not request.private and not shows_pictures(request):
            self._latest[slot] = request
        while len(self._latest) > _NOTED:
            self._latest.popitem(last=False)

    def clear(self) -> None:
        """Forget the prompts in memory."""
        self._latest.clear()

    def latest(self, key: str, model: str, number: int) -> GenerateRequest | None:
        """Return the request whose prompt the slot had last."""
        return self._latest.get((key, model, number))

    def save(self, key: str, digest: str, saved: SavedPrompt) -> None:
        """Write a prompt of the model with these weights; blocks.

        Raises `StorageFull` and `StorageUnusable`.
        """
        with writing_in(self._folder):
            for folder in (self._folder.parent, self._folder):
                make_own_folder(folder)
            write_atomically(self._path(key, digest, saved.name), msgspec.json.encode(saved))
            for old in self._paths(key, digest)[KEPT:]:
                old.unlink(missing_ok=True)

    def read(self, key: str, digest: str, name: str) -> SavedPrompt | None:
        """Return a saved prompt; None if there is none; blocks."""
        try:
            content = self._path(key, digest, name).read_bytes()
            return msgspec.json.decode(content, type=SavedPrompt)
        except (OSError, msgspec.MsgspecError):
            return None

    def _path(self, key: str, digest: str, name: str) -> Path:
        return self._folder / f"{digest}.{_short(key)}.{_short(name)}.slot"

    def _paths(self, key: str, digest: str) -> list[Path]:
        """Return the files, the latest first."""
        times: list[tuple[float, Path]] = []
        for path in self._folder.glob(f"{digest}.{_short(key)}.*.slot"):
            with suppress(OSError):  # it was erased just now
                times.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(times, reverse=True)]


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
