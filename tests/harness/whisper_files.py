"""What the files of a Whisper model in CTranslate2's format begin with."""

from __future__ import annotations

from pathlib import Path

WHISPER_FILES = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "vocabulary.json": b"[]",
    "model.bin": b"\6\0\0\0\x0c\0WhisperSpec\0" + b"weights" * 20,
}


def write_whisper_files(folder: Path) -> Path:
    """Write a folder that is listed as a model, though it recognises nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in WHISPER_FILES.items():
        (folder / name).write_bytes(content)
    return folder
