"""What ingle has written into files of others, so that it can be taken back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..config_editing.document_path import ABSENT, DocumentItem
from ..config_editing.document_path import Path as DataPath
from ..stores.atomic_file import write_atomically

if TYPE_CHECKING:
    from .connect_target import ConnectTarget
    from .settings_file import SettingsFile


def digest(text: str) -> str:
    """What tells whether a text has changed."""
    return hashlib.sha256(text.encode()).hexdigest()


class RecordedPlace(msgspec.Struct, frozen=True):
    """A place in a file, and what was there; an item of a list is a pair of field and value."""

    path: list[str | list[str]]
    was_there: bool
    value: Any = None

    @classmethod
    def of(cls, path: DataPath, value: object) -> RecordedPlace:
        """The place with the value, or `ABSENT`."""
        parts: list[str | list[str]] = [
            [part.key, part.value] if isinstance(part, DocumentItem) else part for part in path
        ]
        return cls(parts, value is not ABSENT, None if value is ABSENT else value)

    def pair(self) -> tuple[DataPath, object]:
        """The place and the value, or `ABSENT`."""
        path = tuple(part if isinstance(part, str) else DocumentItem(*part) for part in self.path)
        return path, self.value if self.was_there else ABSENT


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: what it held before the first change, and the digest of what was written last.

    `original` is None where there was no file. `written` is empty where somebody else changed the
    file between two changes of ours: then no text is known that has only theirs.
    """

    form: str
    original: str | None
    written: str
    before: list[RecordedPlace] = []
    model: str = ""
    context: int = 0

    def places(self) -> list[tuple[DataPath, object]]:
        """Each place that was changed, with what was there."""
        return [place.pair() for place in self.before]


class ChangeRecord:
    """The record's own file, readable by its owner only: what was there may hold secrets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clients = self._load()

    def files(self, client: str) -> dict[str, RecordedFile]:
        """By path, what was written for one program."""
        return dict(self._clients.get(client, {}))

    def given(self, client: str) -> tuple[str, int] | None:
        """The model that a program was last given, and the context it was told."""
        files = self.files(client).values()
        return next(((file.model, file.context) for file in files if file.model), None)

    def add(
        self, client: str, file: SettingsFile, before: str | None, after: str, target: ConnectTarget
    ) -> None:
        """Keep what is about to be written; raises `OSError`."""
        files = self._clients.setdefault(client, {})
        old = files.get(str(file.path))
        places = [RecordedPlace.of(*place) for place in file.places(before or "")]
        original, mixed = before, False
        if old is not None and before is not None:
            # What was there first counts, unless somebody else has changed the file since.
            known = {tuple(map(str, place.path)) for place in old.before}
            places = [*old.before, *(p for p in places if tuple(map(str, p.path)) not in known)]
            if old.written == digest(before):
                original = old.original
            else:
                mixed = True
        files[str(file.path)] = RecordedFile(
            form=file.form,
            original=None if mixed else original,
            written="" if mixed else digest(after),
            before=places,
            model=target.model,
            context=target.context,
        )
        self._save()

    def forget(self, client: str, path: Path) -> None:
        """Let go of what was taken back; raises `OSError`."""
        files = self._clients.get(client, {})
        files.pop(str(path), None)
        if not files:
            self._clients.pop(client, None)
        self._save()

    def _load(self) -> dict[str, dict[str, RecordedFile]]:
        try:
            content = self._path.read_bytes()
            return msgspec.json.decode(content, type=dict[str, dict[str, RecordedFile]])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}  # then settings are taken out one by one

    def _save(self) -> None:
        write_atomically(self._path, msgspec.json.format(msgspec.json.encode(self._clients)))
