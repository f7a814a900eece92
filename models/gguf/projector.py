"""Projectors: the GGUF files that turn pictures into tokens of a language model."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from ..errors import ModelError, UnsupportedModel
from .gguf_header import GGUFHeader, read_file_header
from .gguf_names import is_language_model, model_stem, quantization_in

_MARK = "mmproj"
_PREFERRED = ("F16", "BF16", "Q8_0", "F32")
_FLOAT = 4
_MOST_PATCHES = 16384
"""Of a picture, where the projector takes any size: llama.cpp's own limit is about this."""


def is_projector(name: str) -> bool:
    """Whether a file is a projector by its name."""
    lower = name.lower()
    return lower.endswith(".gguf") and _MARK in lower


def choose_projector(model: str, names: Collection[str]) -> str | None:
    """The projector of a model among the files beside it, by their names; None without one.

    In a folder of several models, only one with the model's own name counts.
    """
    found = [name for name in names if is_projector(name)]
    stem = model_stem(model).lower()
    own = [name for name in found if stem in name.lower()]
    if not own and len({model_stem(name) for name in names if is_language_model(name)}) == 1:
        own = found
    return min(own, key=_rank, default=None)


def find_projector(path: Path) -> Path | None:
    """The projector beside a model's file, None without one."""
    with suppress(OSError):
        if not path.is_file():
            return None
        name = choose_projector(path.name, [entry.name for entry in path.parent.iterdir()])
        return None if name is None else path.with_name(name)
    return None


def read_projector(path: Path) -> GGUFHeader:
    """The header of a projector for pictures; raises `ModelError` for any other file."""
    header = read_file_header(path)
    if header.architecture != "clip" or not header.metadata.get("clip.has_vision_encoder"):
        raise UnsupportedModel(
            f"{path} is no projector for pictures.",
            hint="Such a file comes with the model, and is called mmproj-….gguf.",
        )
    return header


def projector_bytes(path: Path | None) -> int:
    """Bytes of memory that a projector takes, about; 0 without one that can be read."""
    if path is None:
        return 0
    with suppress(ModelError, OSError):
        status = path.stat()
        return _bytes(path, status.st_mtime_ns)
    return 0


@lru_cache(64)
def _bytes(path: Path, modified: int) -> int:
    """As `projector_bytes`; `modified` makes a changed file another cache key."""
    header = read_projector(path)

    def number(name: str) -> int:
        return header.integer(f"vision.{name}") or 0

    side = number("image_size") // max(1, number("patch_size"))
    patches = min(max(side * side, 1024), _MOST_PATCHES)
    width = 6 * number("embedding_length") + 2 * number("feed_forward_length")
    return header.tensor_bytes + patches * width * _FLOAT


def _rank(name: str) -> tuple[int, str]:
    kind = quantization_in(name)
    return (_PREFERRED.index(kind) if kind in _PREFERRED else len(_PREFERRED), name)
