"""Cached descriptions of model files outside the store, read again only after a change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ..errors import InvalidModel, ModelError, ModelNotFound, UnsupportedModel
from ..gguf.gguf_names import parse_shard, shard_paths
from ..json_cache import read_json_cache, write_json_cache
from .manifest import describe_file, describe_folder
from .stored_model import StoredModel

Stamp = tuple[tuple[str, int, int], ...]
"""Name, time of change and size of a file, or of all files in a folder."""

_FORMAT = 1
"""The version of the descriptions' fields; those of another version are read again."""
_MOST = 2000
_KINDS = {kind.code: kind for kind in (InvalidModel, UnsupportedModel, ModelNotFound)}


def as_text(path: Path | str) -> str:
    """A path for display and JSON, with marks for bytes of its names that are not UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode()


class _Seen(msgspec.Struct, frozen=True):
    """The description of a file or folder, valid until it changes."""

    stamp: Stamp
    model: StoredModel | None = None
    error: str = ""
    message: str = ""
    hint: str | None = None

    def result(self) -> StoredModel:
        """The model, or the error for it."""
        if self.model is not None:
            return self.model
        raise _KINDS.get(self.error, ModelError)(self.message, hint=self.hint)


class _Kept(msgspec.Struct, frozen=True):
    format: int
    seen: dict[str, _Seen]


class DescriptionCache:
    """Describes models by their paths; thread-safe.

    `cache` is a file that keeps descriptions, since reading many headers takes seconds.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache
        self._seen: dict[str, _Seen] | None = None
        self._changed = False

    def describe(self, path: Path) -> StoredModel:
        """The model at a path.

        Raises `OSError`, and `ModelError` if it is no model or no engine can run it.
        """
        status = path.stat()
        if (shown := as_text(path)) != str(path):
            raise UnsupportedModel(
                f"{shown} has a name that is not UTF-8.", hint="Rename it, or link to it."
            )
        stamp, known = _stamp(path, status), self._known()
        seen = known.get(str(path))
        if seen is None or seen.stamp != stamp:
            try:
                seen = _Seen(stamp, describe_model(path))
            except ModelError as error:
                seen = _Seen(stamp, None, error.code, error.message, error.hint)
            known[str(path)] = seen
            self._changed = True
        return seen.result()

    def save(self) -> None:
        """Write new descriptions for the next process."""
        if self._cache is None or not self._changed:
            return
        self._changed = False
        newest = dict(list(self._known().items())[-_MOST:])
        write_json_cache(self._cache, _Kept(_FORMAT, newest))

    def _known(self) -> dict[str, _Seen]:
        if self._seen is None:
            kept = None if self._cache is None else read_json_cache(self._cache, _Kept, _decode)
            self._seen = kept.seen if kept is not None and kept.format == _FORMAT else {}
        return self._seen


def _decode(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value))
    raise NotImplementedError


def _stamp(path: Path, status: os.stat_result) -> Stamp:
    if not stat.S_ISDIR(status.st_mode):
        if parse_shard(path.name) is None:
            return ((path.name, status.st_mtime_ns, status.st_size),)
        return _stamps(shard_paths(path))
    return _stamps(path.iterdir())


def _stamps(paths: Iterable[Path]) -> Stamp:
    files: list[tuple[str, int, int]] = []
    for file in paths:
        with suppress(OSError):  # a dangling link, reported when it is read
            found = file.stat()  # what a link leads to, as in the cache of the hub's own client
            files.append((as_text(file.name), found.st_mtime_ns, found.st_size))
    return tuple(sorted(files))


def describe_model(path: Path) -> StoredModel:
    """The model in a file or folder, read anew; raises `ModelError` if no engine can run it."""
    # Imported here: a daemon that lists described models starts without the readers.
    if not path.is_dir():
        from ..gguf.gguf_header import read_header
        from ..gguf.gguf_support import check_supported

        header = read_header(path)
        check_supported(header)
        return describe_file(path, header)
    from ..safetensors.model_folder import is_model_folder, read_folder
    from ..whisper_files import is_whisper
    from .whisper_folder import describe_whisper

    if is_whisper({entry.name for entry in path.iterdir()}):
        return describe_whisper(path)
    if not is_model_folder(path):
        raise ModelNotFound(
            f"{path} is a folder without a model.",
            hint="Name a .gguf file, or a folder with safetensors and their config.json.",
        )
    return describe_folder(read_folder(path))
