"""Open the tokenizer of a model's files, without PyTorch: jobs for llama.cpp alone use it, too."""

from __future__ import annotations

from pathlib import Path

from ..text.tokenization.tokenizer import Tokenizer


def open_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer in a folder, or in a GGUF file, for a model with so many rows of logits.

    Raises `LoadFailed`, `InvalidModel` and `UnsupportedModel`.
    """
    if path.is_dir():
        from ..text.tokenization.hf_tokenizer import HFTokenizer

        return HFTokenizer(path, vocab_size)
    from ..llama_cpp.llama_tokenizer import LlamaVocabulary

    return LlamaVocabulary(path)
