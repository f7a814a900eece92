"""Where a runner gets its model from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..text.tokenization.tokenizer import Tokenizer
from .model_files import ModelFiles, open_model
from .open_tokenizer import open_tokenizer


@dataclass(frozen=True)
class ModelSource:
    """A model's shape and tensors, and what cuts its texts into tokens."""

    files: ModelFiles
    tokenizer: Tokenizer


def open_source(path: Path) -> ModelSource:
    """Of a GGUF file or a folder of safetensors; raises `ModelError` where it cannot be used."""
    files = open_model(path)
    return ModelSource(files, open_tokenizer(path, files.config.vocab_size))
