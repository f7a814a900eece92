"""One settings file of another program, and its edited text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..config_editing.block_document import BLOCK, BlockDocument
from ..config_editing.document_path import (
    ABSENT,
    CannotEdit,
    DocumentItem,
    changed,
    find,
    without,
    without_empty,
)
from ..config_editing.document_path import Path as DataPath

if TYPE_CHECKING:
    from ..config_editing.json_document import JSONDocument
    from ..config_editing.toml_document import TOMLDocument
    from ..config_editing.yaml_document import YAMLDocument

UNSAFE_FORM = "It is written in a way that ingle cannot change safely."


def has(*path: str) -> Callable[[object], bool]:
    """Return whether a file's data has a value at the path."""
    return lambda data: find(data, path) is not ABSENT


@dataclass(frozen=True)
class ProgramSetting:
    """A value and its path; not set if `unless` is true of the file's data."""

    path: DataPath
    value: object
    unless: Callable[[object], bool] = lambda data: False


@dataclass(frozen=True)
class SettingsFile:
    """A file of one program, with the settings that `ingle connect` writes into it."""

    path: Path
    form: str
    settings: Sequence[ProgramSetting]

    def read(self) -> str | None:
        """Return its text; None if there is no file. Raises `CannotEdit`."""
        try:
            return self.path.read_bytes().decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise CannotEdit(f"{self.path} is not UTF-8.") from None
        except OSError as error:
            raise CannotEdit(f"{self.path} cannot be read: {error.strerror}.") from None

    def edited(self, text: str) -> str:
        """Return the text with all settings; unchanged if it has them already.

        Raises `CannotEdit`, also if the result would differ in anything else.
        """
        for setting in self.settings:
            document = parse(text, self.form)
            before = document.data
            if setting.unless(before) or find(before, setting.path) == setting.value:
                continue
            text = document.changed(setting.path, setting.value)
            self._verify(text, changed(before, setting.path, setting.value))
        return text

    def keeps_other(self, text: str) -> bool:
        """Return whether a setting is not written since the user has chosen another value."""
        data = parse(text, self.form).data
        return any(
            setting.unless(data) and find(data, setting.path) not in (ABSENT, setting.value)
            for setting in self.settings
        )

    def restored(self, text: str, previous: Sequence[tuple[DataPath, object]]) -> str:
        """Return the text with the previous values restored; `ABSENT` removes them.

        Containers that were created only for them are removed as well. Raises `CannotEdit`.
        """
        paths = [path for path, _ in previous]
        leaves = {p for p in paths if not any(q[: len(p)] == p and q != p for q in paths)}
        for path, value in reversed(previous):
            document = parse(text, self.form)
            now = find(document.data, path)
            if value is not ABSENT:
                if now != value:
                    wanted = changed(document.data, path, value)
                    text = document.changed(path, value)
                    self._verify(text, wanted)
            elif now is not ABSENT and (path in leaves or not now):
                wanted = without_empty(without(document.data, path))
                text = document.without(path)
                if without_empty(parse(text, self.form).data) != wanted:
                    raise CannotEdit(UNSAFE_FORM)
        return text

    def places(self, text: str) -> list[tuple[DataPath, object]]:
        """Return every path that `edited` may change, from the outside in, with its present value.

        Of objects that do not exist yet only the outermost counts.
        """
        data, places = parse(text, self.form).data, dict[DataPath, object]()
        for setting in self.settings:
            if setting.unless(data):
                continue
            for depth in range(1, len(setting.path) + 1):
                path = setting.path[:depth]
                found = find(data, path)
                if found is ABSENT or depth == len(setting.path):
                    places.setdefault(path, found)
        return list(places.items())

    def ours(self, text: str) -> list[tuple[DataPath, object]]:
        """Return the paths that bear ingle's name or hold what `edited` writes."""
        data, places = parse(text, self.form).data, dict[DataPath, object]()
        for setting in self.settings:
            named = any(part in (BLOCK, DocumentItem("name", BLOCK)) for part in setting.path)
            if named or find(data, setting.path) == setting.value:
                for depth in range(1, len(setting.path) + 1):
                    places.setdefault(setting.path[:depth], ABSENT)
        return list(places.items())

    def _verify(self, text: str, wanted: object) -> None:
        try:
            outcome = parse(text, self.form).data
        except CannotEdit:
            outcome = ABSENT
        if outcome != wanted:
            raise CannotEdit(UNSAFE_FORM)


def parse(text: str, form: str) -> JSONDocument | TOMLDocument | YAMLDocument | BlockDocument:
    """Return the document, of format json, toml, yaml, vim or lua; raises `CannotEdit`."""
    # Each import brings a parser that the others do not need.
    if form == "json":
        from ..config_editing.json_document import JSONDocument

        return JSONDocument(text)
    if form == "toml":
        from ..config_editing.toml_document import TOMLDocument

        return TOMLDocument(text)
    if form == "yaml":
        from ..config_editing.yaml_document import YAMLDocument

        return YAMLDocument(text)
    return BlockDocument(text, comment="--" if form == "lua" else '"')
