"""A model in several GGUF files, read as one.

Source: llama.cpp's gguf-split and its loader: `split.no`, `split.count` and `split.tensors.count`,
and names that end in `-00001-of-00003.gguf`. The first part has the metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidModel
from .gguf_names import MAX_SHARDS, Shard, parse_shard

if TYPE_CHECKING:
    from .gguf_header import GGUFHeader, TensorInfo

_AGAIN = "Download all parts again."


def join_shards(
    first: GGUFHeader,
    read: Callable[[Path], GGUFHeader],
    exists: Callable[[Path], bool] = Path.exists,
) -> GGUFHeader:
    """The header with the tensors of all parts, `first` being part one; a whole model as it is.

    Raises `InvalidModel` where parts are missing or do not belong together, and what `read` raises.
    """
    count = _number(first, "split.count")
    if count <= 1:
        return first
    shard = _checked_name(first, count)
    paths = [first.path.with_name(name) for name in shard.names()]
    missing = [path.name for path in paths if not exists(path)]
    if missing:
        raise InvalidModel(
            f"{first.path} is one of {count} parts of a model, and {missing[0]} is not beside it.",
            hint=_AGAIN,
        )
    tensors, stamps = list(first.tensors), first.stamps
    for index, path in enumerate(paths[1:], start=1):
        part = read(path)
        if (_number(part, "split.count"), _number(part, "split.no")) != (count, index):
            _fail(path, f"does not say that it is part {index + 1} of {count}")
        stamps += part.stamps
        tensors += [replace(tensor, file=index) for tensor in part.tensors]
    _check_tensors(first, tensors)
    return replace(first, tensors=tuple(tensors), shards=tuple(paths), stamps=stamps)


def _checked_name(first: GGUFHeader, count: int) -> Shard:
    shard = parse_shard(first.path.name)
    if not 1 < count <= MAX_SHARDS or shard is None or shard.count != count:
        raise InvalidModel(
            f"{first.path} is one of {count} parts of a model, and its name does not say which.",
            hint="Such files are called NAME-00001-of-00003.gguf; give them back their names.",
        )
    if shard.number != 1 or _number(first, "split.no") != 0:
        raise InvalidModel(
            f"{first.path} is part {shard.number} of a model in {count} files.",
            hint=f"Name the first one, {shard.names()[0]}.",
        )
    return shard


def _check_tensors(first: GGUFHeader, tensors: list[TensorInfo]) -> None:
    promised = first.metadata.get("split.tensors.count")
    if isinstance(promised, int) and promised != len(tensors):
        _fail(first.path, f"promises {promised} tensors, and its parts have {len(tensors)}")
    if len({tensor.name for tensor in tensors}) != len(tensors):
        _fail(first.path, "and its parts have a tensor twice")


def _number(header: GGUFHeader, key: str) -> int:
    value = header.metadata.get(key)
    return value if isinstance(value, int) else 0


def _fail(path: Path, reason: str) -> None:
    raise InvalidModel(f"{path} {reason}.", hint=_AGAIN)
