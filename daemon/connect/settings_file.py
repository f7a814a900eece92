"""One settings file of another program, and the text it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

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

NO_DARING = "It is written in a way that ingle does not dare to change."


class Document(Protocol):
    """A text that can be changed at one place."""

    @property
    def data(self) -> object:
        """What the text says."""
        ...

    def changed(self, path: DataPath, value: object) -> str:
        """The text with `value` at the place."""
        ...

    def without(self, path: DataPath) -> str:
        """The text without what is at the place."""
        ...


def _never(data: object) -> bool:
    return False


@dataclass(frozen=True)
class ProgramSetting:
    """A value and its place; not set where `unless` says so of what the file says already."""

    path: DataPath
    value: object
    unless: Callable[[object], bool] = _never


@dataclass(frozen=True)
class SettingsFile:
    """A file of one program, with what `ingle connect` wants it to say."""

    path: Path
    form: str
    settings: Sequence[ProgramSetting]

    def read(self) -> str | None:
        """Its text, None where there is no file; raises `CannotEdit`."""
        try:
            return self.path.read_bytes().decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise CannotEdit(f"{self.path} is not UTF-8.") from None
        except OSError as error:
            raise CannotEdit(f"{self.path} cannot be read: {error.strerror}.") from None

    def edited(self, text: str) -> str:
        """The text with all settings; the same where it says them already.

        Raises `CannotEdit`, also where the outcome would say anything else than it should.
        """
        for setting in self.settings:
            document = parse(text, self.form)
            before = document.data
            if setting.unless(before) or find(before, setting.path) == setting.value:
                continue
            text = document.changed(setting.path, setting.value)
            self._verify(text, changed(before, setting.path, setting.value))
        return text

    def restored(self, text: str, previous: Sequence[tuple[DataPath, object]]) -> str:
        """The text with what stood at the places before; `ABSENT` takes them out.

        What was made only to hold them goes as well. Raises `CannotEdit`.
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
                    raise CannotEdit(NO_DARING)
        return text

    def places(self, text: str) -> list[tuple[DataPath, object]]:
        """Every place that `edited` may change, from the outside in, with what is there now.

        Of objects that are not there yet only the outermost counts, and what lies in it.
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
        """The places that bear ingle's name or hold what `edited` writes, as made by us."""
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
            raise CannotEdit(NO_DARING)


def parse(text: str, form: str) -> Document:
    """The document in one of the forms json, toml, yaml, vim and lua; raises `CannotEdit`."""
    return _parser(form)(text)


def _parser(form: str) -> Callable[[str], Document]:
    # Each brings a parser that the others need not wait for.
    if form == "json":
        from ..config_editing.json_document import JSONDocument

        return JSONDocument
    if form == "toml":
        from ..config_editing.toml_document import TOMLDocument

        return TOMLDocument
    if form == "yaml":
        from ..config_editing.yaml_document import YAMLDocument

        return YAMLDocument
    return partial(BlockDocument, comment="--" if form == "lua" else '"')
