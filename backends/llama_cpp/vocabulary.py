"""The vocabulary of a GGUF file, without its weights."""

from __future__ import annotations

from pathlib import Path

from .llama_model import LlamaModel
from .llama_tokenizer import LlamaTokenizer
from .native_log import NativeLog


class LlamaVocabulary(LlamaTokenizer):
    """llama.cpp's tokenizer for a file whose weights another engine loads."""

    def __init__(self, path: Path) -> None:
        """Read the vocabulary; raises `LoadFailed`."""
        log = NativeLog()
        try:
            super().__init__(LlamaModel(path, vocab_only=True, log=log))
        finally:
            log.close()

    def close(self) -> None:
        """Free the vocabulary; it cannot be used afterwards."""
        self._model.close()
