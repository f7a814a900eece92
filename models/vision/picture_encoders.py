"""What turns pictures into tokens of a model: a projector beside its file, or its own folder."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import cast

from ..errors import ModelError
from ..gguf.projector import find_projector, projector_bytes, read_projector
from ..json_object import read_json_object
from ..safetensors.folder_files import CONFIG
from .vision_config import VisionConfig, vision_family, vision_from_gguf, vision_from_hf

_PREPROCESSING, _PROCESSING = "preprocessor_config.json", "processor_config.json"


def find_encoder(path: Path) -> Path | None:
    """The projector beside a model's file, or its folder if that sees; None for one that does not.

    An encoder in a folder is one that ingle's own engine computes.
    """
    if not path.is_dir():
        return find_projector(path)
    with suppress(ModelError, OSError):
        return path if vision_family(read_json_object(path / CONFIG) or {}) else None
    return None


def read_encoder(path: Path) -> VisionConfig:
    """The settings of the encoder in a folder or a projector's file.

    Raises `UnsupportedModel` for one that ingle's own engine does not compute, and `InvalidModel`.
    """
    if not path.is_dir():
        return vision_from_gguf(read_projector(path))
    shown = read_json_object(path / _PREPROCESSING)
    if shown is None:
        inner = (read_json_object(path / _PROCESSING) or {}).get("image_processor")
        shown = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    return vision_from_hf(read_json_object(path / CONFIG) or {}, shown)


def encoder_bytes(path: Path | None) -> int:
    """Bytes that an encoder takes beside the model, about; 0 without one that can be read.

    The weights of one in the model's folder are the model's.
    """
    if path is None or not path.is_dir():
        return projector_bytes(path)
    config = _known(path)
    return 0 if config is None else config.workspace_bytes


def is_known_encoder(path: Path | None) -> bool:
    """Whether ingle's own engine computes the encoder."""
    return path is not None and _known(path) is not None


def _known(path: Path) -> VisionConfig | None:
    with suppress(OSError):
        return _read(path, path.stat().st_mtime_ns)
    return None


@lru_cache(64)
def _read(path: Path, modified: int) -> VisionConfig | None:
    """None for an encoder that is not known; `modified` makes a changed one another cache key."""
    del modified
    with suppress(ModelError):
        return read_encoder(path)
    return None
