"""Folders with a Whisper model in CTranslate2's format, which recognises speech."""

from __future__ import annotations

import struct
from pathlib import Path

from ..errors import InvalidModel
from ..json_object import read_json_object
from ..model_task import ModelTask
from ..safetensors.folder_files import CONFIG
from ..whisper_files import FILES, WEIGHTS
from .stored_model import StoredModel

_SPEC = b"WhisperSpec\0"
_HEADER = struct.Struct(f"<IH{len(_SPEC)}s")
_CONTEXT = 448


def describe_whisper(path: Path) -> StoredModel:
    """The model of a folder, named by its path; raises `OSError` and `InvalidModel`."""
    with (path / WEIGHTS).open("rb") as file:
        head = file.read(_HEADER.size)
    if len(head) < _HEADER.size or _HEADER.unpack(head)[1:] != (len(_SPEC), _SPEC):
        raise InvalidModel(
            f"{path / WEIGHTS} is no Whisper model of CTranslate2.",
            hint="Look for a repository such as hf.co/Systran/faster-whisper-base.",
        )
    settings = read_json_object(path / CONFIG) or {}
    return StoredModel(
        name=str(path),
        path=path,
        size=sum((path / name).stat().st_size for name in FILES if (path / name).exists()),
        sha256=None,
        licence="unknown",
        description="recognises speech",
        parameters=0,
        quantization=str(settings.get("quantization") or "unknown")[:20],
        architecture="whisper",
        context=_CONTEXT,
        chat=False,
        source="folder",
        task=ModelTask.TRANSCRIBE,
    )
