"""The index of a model's safetensors files: which file holds which tensor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, cast

from ..errors import InvalidModel, ModelNotFound
from .folder_files import is_weights
from .safetensors_header import StoredTensor, parse_json_object, read_safetensors_header

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_LONGEST_INDEX = 1 << 24
_MAX_SHARDS = 1024
_LONGEST_NAME = 512


def find_tensors(folder: Path) -> Mapping[str, tuple[Path, StoredTensor]]:
    """Each tensor of the model in `folder` with the file it is in.

    That is `model.safetensors`, or what `model.safetensors.index.json` lists, or without both the
    only file that is named like weights. Raises `ModelNotFound`, `InvalidModel` or
    `UnsupportedModel`.
    """
    try:
        path = folder / _SINGLE
        if not path.exists() and not (folder / _INDEX).exists():
            named = [each for each in folder.glob("*.safetensors") if is_weights(each.name)]
            path = named[0] if len(named) == 1 else path
        if path.exists():
            return {tensor.name: (path, tensor) for tensor in read_safetensors_header(path)}
        if not (folder / _INDEX).exists():
            raise ModelNotFound(
                f"{folder} holds neither {_SINGLE} nor {_INDEX}.",
                hint="Name the folder of a model that is stored as safetensors.",
            )
        return _read_shards(folder, _read_index(folder / _INDEX))
    except OSError as error:
        raise ModelNotFound(f"{folder} cannot be read: {error.strerror or error}.") from error


def _read_index(path: Path) -> dict[str, str]:
    """From tensors to the plain names of files beside the index."""
    if not path.is_file() or path.stat().st_size > _LONGEST_INDEX:
        _fail(path, "is not a file of reasonable size")
    raw = path.read_bytes()
    entries: object = parse_json_object(raw, path, "text").get("weight_map")
    if not isinstance(entries, dict):
        _fail(path, "does not say which file holds which tensor")
    files = cast("dict[str, object]", entries)
    for name, shard in files.items():
        if len(name) > _LONGEST_NAME:
            _fail(path, f"has a tensor name of {len(name)} letters")
        if not isinstance(shard, str):
            _fail(path, f"does not say which file holds {name!r}")
        if not _is_plain_name(shard):
            _fail(path, f"names {shard[:80]!r}, which is not a file beside it")
    if len(set(files.values())) > _MAX_SHARDS:
        _fail(path, f"spreads the model over {len(set(files.values()))} files")
    return cast("dict[str, str]", files)


def _is_plain_name(name: str) -> bool:
    """True for a name that can only mean a file in the same folder, on any system."""
    return (
        name.endswith(".safetensors")
        and len(name) <= 255
        and name.isprintable()
        and not any(letter in name for letter in '/\\:"')
        and not name.startswith(".")
    )


def _read_shards(folder: Path, index: dict[str, str]) -> dict[str, tuple[Path, StoredTensor]]:
    found: dict[str, tuple[Path, StoredTensor]] = {}
    for shard in sorted(set(index.values())):
        path = folder / shard
        if not path.exists():
            raise InvalidModel(
                f"{folder} lacks {shard}, which holds a part of the model.",
                hint="Download it again.",
            )
        for tensor in read_safetensors_header(path):
            if tensor.name in found:
                other = found[tensor.name][0].name
                _fail(folder, f"has the tensor {tensor.name!r} in {other} and in {shard}")
            found[tensor.name] = (path, tensor)
    for name, shard in index.items():
        if name not in found or found[name][0].name != shard:
            _fail(folder / _INDEX, f"says that {shard} holds {name!r}, which it does not")
    return found


def _fail(path: Path, reason: str) -> NoReturn:
    raise InvalidModel(f"{path} {reason}.", hint="Download it again: the model is damaged.")
