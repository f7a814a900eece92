"""Records what ingle has written into other programs' files, so that it can be undone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..config_editing.document_path import ABSENT
from ..config_editing.document_path import Path as DataPath
from ..stores.atomic_file import write_atomically

if TYPE_CHECKING:
    from .connect_target import ConnectTarget
    from .settings_file import SettingsFile


def digest(text: str) -> str:
    """Return a digest that shows whether a text has changed."""
    return hashlib.sha256(text.encode()).hexdigest()


class RecordedPlace(msgspec.Struct, frozen=True):
    """A path in a file, and its previous value."""

    path: DataPath
    was_there: bool
    value: Any = None


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its content before the first change, and the digest of what was last written.

    `original` is None if there was no file. `written` is empty if another program changed the file
    between two changes of ours: then no version without our changes is known.
    """

    form: str
    original: str | None
    written: str
    before: list[RecordedPlace] = []
    model: str = ""
    context: int = 0

    def places(self) -> list[tuple[DataPath, object]]:
        """Return each changed path with its previous value, `ABSENT` if there was none."""
        return [(place.path, place.value if place.was_there else ABSENT) for place in self.before]


class ChangeRecord:
    """The record's own file, readable by its owner only: previous content may hold secrets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clients = self._load()

    def files(self, client: str) -> dict[str, RecordedFile]:
        """Return the recorded files of one program, by path."""
        return dict(self._clients.get(client, {}))

    def given(self, client: str) -> tuple[str, int] | None:
        """Return the model that a program was last given, and the context that was written."""
        files = self.files(client).values()
        return next(((file.model, file.context) for file in files if file.model), None)

    def add(
        self, client: str, file: SettingsFile, before: str | None, after: str, target: ConnectTarget
    ) -> None:
        """Record a change that is about to be written; raises `OSError`."""
        files = self._clients.setdefault(client, {})
        old = files.get(str(file.path))
        places = [
            RecordedPlace(path, value is not ABSENT, None if value is ABSENT else value)
            for path, value in file.places(before or "")
        ]
        original, mixed = before, False
        if old is not None and before is not None:
            # The first previous value counts, unless another program has changed the file since.
            known = {place.path for place in old.before}
            places = [*old.before, *(place for place in places if place.path not in known)]
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
        """Remove the record of an undone change; raises `OSError`."""
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
            return {}  # then settings are removed one by one

    def _save(self) -> None:
        write_atomically(self._path, msgspec.json.format(msgspec.json.encode(self._clients)))
