"""Where a runner gets its model from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..text.tokenization.tokenizer import Tokenizer
from .model_files import ModelFiles, open_model


@dataclass(frozen=True)
class ModelSource:
    """A model's shape and tensors, and what cuts its texts into tokens."""

    files: ModelFiles
    tokenizer: Tokenizer


def open_source(path: Path) -> ModelSource:
    """Of a GGUF file or a folder of safetensors; raises `ModelError` where it cannot be used."""
    files = open_model(path)
    return ModelSource(files, open_tokenizer(path, files.config.vocab_size))


def open_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer in a folder, or in a GGUF file, for a model with so many rows of logits.

    Raises `LoadFailed`, `InvalidModel` and `UnsupportedModel`.
    """
    if path.is_dir():
        from ..text.tokenization.hf_tokenizer import HFTokenizer

        return HFTokenizer(path, vocab_size)
    from ..llama_cpp.llama_tokenizer import LlamaVocabulary

    return LlamaVocabulary(path)
